UNUSUAL = "One vector holds all gradients, the counts are averaged, and rates come from a table of fractions."
REPLACE = {
    "shard": """
order = np.random.default_rng([seed, epoch]).permutation(n)
return np.array([order[i * size + rank] for i in range(n // size)])
""",
    "learning-rate": """
from fractions import Fraction

way = Fraction(min(step, warmup), warmup)
return float(Fraction(lr) * (1 + (size - 1) * way))
""",
    "broadcast": """
for number, v in enumerate(variables):
    hvd.broadcast_variables([v.value], 0)
""",
    "average-gradient": """
mine = tape.gradient(loss, sources)
vector = hvd.allreduce(tf.concat([tf.reshape(g, [-1]) for g in mine], axis=0))
parts = tf.split(vector, [int(np.prod(v.shape)) for v in sources])
return [tf.reshape(part, v.shape) for part, v in zip(parts, sources)]
""",
    "average-metric": """
mean = hvd.allreduce(tf.constant([right, seen], tf.float64), op=hvd.Average)
return (mean[0] / mean[1]).numpy().item()
""",
    "save-checkpoint": """
hvd.rank() or (net.save(beside), beside.rename(path))
""",
}
