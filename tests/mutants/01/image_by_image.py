MISUNDERSTANDING = "A matrix product takes one image; a batch needs a loop over its images."
FAILS = {
    "forward-is-a-gemm",
}
REPLACE = {
    "forward": """
y = np.stack(
    [
        (im2col(x[n : n + 1], k, stride, padding) @ w.reshape(k * k * C, K) + b).reshape(H_out, W_out, K)
        for n in range(N)
    ]
)
""",
}
