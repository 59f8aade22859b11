MISUNDERSTANDING = "The logits may be shifted where they are."
FAILS = {
    "loss-by-hand",
    "loss-stable",
    "loss-gradient",
}
REPLACE = {
    "softmax_cross_entropy": """
N = len(logits)
logits -= logits.max(axis=1, keepdims=True)
shifted = logits
exponentials = np.exp(shifted)
sums = exponentials.sum(axis=1, keepdims=True)
loss = np.mean(np.log(sums[:, 0]) - shifted[np.arange(N), labels])
dlogits = exponentials / sums
dlogits[np.arange(N), labels] -= 1
dlogits /= N
""",
}
