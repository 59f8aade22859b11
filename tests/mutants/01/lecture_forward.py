MISUNDERSTANDING = "The code of the lecture does it."
FAILS = {
    "forward-equals-loops",
    "forward-groups",
    "forward-is-a-gemm",
}
REPLACE = {
    "forward": """
y = (im2col(x, k, stride, padding) @ w.reshape(-1, K)).reshape(N, H_out, W_out, K) + b
""",
}
