UNUSUAL = "Keras' operations for the rate and the gradient; the shuffle is dealt out as columns of a table."
REPLACE = {
    "shard": """
order = np.arange(n)
np.random.default_rng([seed, epoch]).shuffle(order)
return order[: n // size * size].reshape(-1, size)[:, rank]
""",
    "learning-rate": """
if step >= warmup:
    return float(size * lr)
return float(np.interp(step, [0, warmup], [lr, size * lr]))
""",
    "average-gradient": """
mine = tape.gradient(loss, sources)
return [keras.ops.divide(hvd.allreduce(g, op=hvd.Sum), hvd.size()) for g in mine]
""",
}
