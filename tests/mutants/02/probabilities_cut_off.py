MISUNDERSTANDING = "A small number is added to p, so that its logarithm exists."
FAILS = {
    "loss-stable",
}
REPLACE = {
    "softmax_cross_entropy": """
N = len(logits)
shifted = logits - logits.max(axis=1, keepdims=True)
exponentials = np.exp(shifted)
sums = exponentials.sum(axis=1, keepdims=True)
loss = np.mean(-np.log((exponentials / sums)[np.arange(N), labels] + 1e-12))
dlogits = exponentials / sums
dlogits[np.arange(N), labels] -= 1
dlogits /= N
""",
}
