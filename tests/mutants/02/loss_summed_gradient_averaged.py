MISUNDERSTANDING = "The mean concerns the gradient only."
FAILS = {
    "loss-by-hand",
    "loss-stable",
}
REPLACE = {
    "softmax_cross_entropy": """
N = len(logits)
shifted = logits - logits.max(axis=1, keepdims=True)
exponentials = np.exp(shifted)
sums = exponentials.sum(axis=1, keepdims=True)
loss = np.sum(np.log(sums[:, 0]) - shifted[np.arange(N), labels])
dlogits = exponentials / sums
dlogits[np.arange(N), labels] -= 1
dlogits /= N
""",
}
