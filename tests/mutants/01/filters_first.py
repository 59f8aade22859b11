MISUNDERSTANDING = "The filters are the rows of the matrix, so K comes first in the reshape."
FAILS = {
    "forward-equals-loops",
}
REPLACE = {
    "forward": """
rows_of_y = im2col(x, k, stride, padding) @ w.reshape(K, k * k * C).T + b
y = rows_of_y.reshape(N, H_out, W_out, K)
""",
}
