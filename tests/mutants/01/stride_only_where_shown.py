MISUNDERSTANDING = "What the visible checks of forward() show is all that is asked: padding, but no stride."
FAILS = {"forward-equals-loops"}
REPLACE = {
    "forward": """
rows_of_y = im2col(x, k, 1, padding) @ w.reshape(k * k * C, K) + b
H_1, W_1 = output_size(H, k, 1, padding), output_size(W, k, 1, padding)
y = rows_of_y.reshape(N, H_1, W_1, K)[:, :H_out, :W_out]
""",
}
