MISUNDERSTANDING = "The largest logit of the batch is taken from all."
FAILS = {
    "loss-stable",
}
REPLACE = {
    "softmax_cross_entropy": """
N = len(logits)
shifted = logits - logits.max()
exponentials = np.exp(shifted)
sums = exponentials.sum(axis=1, keepdims=True)
loss = np.mean(np.log(sums[:, 0]) - shifted[np.arange(N), labels])
dlogits = exponentials / sums
dlogits[np.arange(N), labels] -= 1
dlogits /= N
""",
}
