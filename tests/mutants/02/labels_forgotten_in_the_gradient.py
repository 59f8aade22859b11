MISUNDERSTANDING = "The gradient of a softmax is the softmax itself."
FAILS = {
    "loss-gradient",
    "loss-stable",
    "network-learns",
}
REPLACE = {
    "softmax_cross_entropy": """
N = len(logits)
shifted = logits - logits.max(axis=1, keepdims=True)
exponentials = np.exp(shifted)
sums = exponentials.sum(axis=1, keepdims=True)
loss = np.mean(np.log(sums[:, 0]) - shifted[np.arange(N), labels])
dlogits = exponentials / sums
dlogits /= N
""",
}
