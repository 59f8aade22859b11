UNUSUAL = "The pixels of all windows are gathered by one array of indices."
REPLACE = {
    "im2col": """
rows = np.arange(H_out)[:, None] * stride + np.arange(k) * dilation - padding
cols = np.arange(W_out)[:, None] * stride + np.arange(k) * dilation - padding
inside = ((rows >= 0) & (rows < H))[:, None, :, None] & ((cols >= 0) & (cols < W))[None, :, None, :]
taken = x[:, rows.clip(0, H - 1)[:, None, :, None], cols.clip(0, W - 1)[None, :, None, :]]
columns = np.where(inside[..., None], taken, np.zeros((), x.dtype)).reshape(-1, k * k * C)
""",
}
