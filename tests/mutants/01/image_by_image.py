MISUNDERSTANDING = "A matrix product takes one image; a batch needs a loop over its images."
FAILS = {
    "forward-is-a-gemm",
}
REPLACE = {
    "forward": """
images = []
for n in range(N):
    windows = im2col(x[n : n + 1], k, stride, padding, dilation).reshape(-1, k * k, groups, C_group)
    filters = w.reshape(k * k, C_group, groups, K // groups)
    parts = [
        gemm(windows[:, :, g].reshape(-1, k * k * C_group), filters[:, :, g].reshape(k * k * C_group, -1))
        for g in range(groups)
    ]
    images.append(np.concatenate(parts, axis=1).reshape(H_out, W_out, K) + b)
y = np.stack(images)
""",
}
