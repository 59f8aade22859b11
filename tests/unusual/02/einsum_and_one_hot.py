UNUSUAL = "All products by einsum, the labels as one-hot rows, log-softmax by logaddexp."
REPLACE = {
    "dense": """
y = np.einsum("ni,ij->nj", np.array([image.ravel() for image in x]), w) + b[np.newaxis]
""",
    "dense_gradient": """
rows = x.reshape(len(x), w.shape[0])
dx = np.einsum("nj,ij->ni", dy, w).reshape(x.shape)
dw, db = np.einsum("ni,nj->ij", rows, dy), np.einsum("nj->j", dy)
""",
    "relu": """
y = (x + np.abs(x)) / 2
""",
    "relu_gradient": """
dx = dy * np.heaviside(x, 0).astype(dy.dtype)
""",
    "softmax_cross_entropy": """
log_p = logits - np.logaddexp.reduce(logits, axis=1, keepdims=True)
one_hot = np.eye(logits.shape[1], dtype=logits.dtype)[labels]
loss = -np.einsum("nc,nc->", log_p, one_hot) / len(logits)
dlogits = (np.exp(log_p) - one_hot) / np.asarray(len(logits), logits.dtype)
""",
}
