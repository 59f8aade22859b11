MISUNDERSTANDING = "A convolution turns its filter by 180 degrees, as in mathematics."
FAILS = {
    "forward-by-hand",
    "forward-equals-loops",
    "forward-is-a-gemm",
}
REPLACE = {
    "forward": """
rows_of_y = im2col(x, k, stride, padding) @ w[::-1, ::-1].reshape(k * k * C, K) + b
y = rows_of_y.reshape(N, H_out, W_out, K)
""",
}
