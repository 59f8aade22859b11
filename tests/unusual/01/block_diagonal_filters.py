UNUSUAL = "Groups are one large product with filters that are zero outside their group."
REPLACE = {
    "forward": """
full = np.zeros((k * k, C, K), w.dtype)
for f in range(K):
    g = f // (K // groups)
    full[:, g * C_group : (g + 1) * C_group, f] = w.reshape(k * k, C_group, K)[:, :, f]
y = gemm(im2col(x, k, stride, padding, dilation), full.reshape(k * k * C, K)).reshape(N, H_out, W_out, K) + b
""",
    "filter_gradient": """
full = gemm(im2col(x, k, stride, padding, dilation).T, dy.reshape(-1, K)).reshape(k, k, groups, C_group, K)
of_filter = np.arange(K) // (K // groups)
dw = np.stack([full[:, :, of_filter[f], :, f] for f in range(K)], axis=-1)
db = np.einsum("nijf->f", dy)
""",
}
