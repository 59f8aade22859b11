UNUSUAL = "The velocity is taken back to the unit of gradients, as in the other form, and forth again."
REPLACE = {
    "momentum-step": """
u = momentum * (v / lr_before) + gradient
step = gradient + momentum * u if nesterov else u
return w - lr * step, lr * u
""",
    "batch-gradient": """
weights = np.repeat(1 / seen.sum(), len(seen))
return np.einsum("k,kd->d", weights, sums) + decay * w
""",
}
