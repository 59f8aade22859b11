MISUNDERSTANDING = "The bias is added to each product of the sum, not to the sum."
FAILS = {
    "forward-by-hand",
    "forward-equals-loops",
}
REPLACE = {
    "forward": """
rows_of_y = im2col(x, k, stride, padding) @ w.reshape(k * k * C, K) + k * k * C * b
y = rows_of_y.reshape(N, H_out, W_out, K)
""",
}
