UNUSUAL = (
    "Only sums are known: of what rank 0 has and of zeros, of gradients divided before, of gathered counts."
)
REPLACE = {
    "broadcast": """
import warnings

warnings.warn(f"rank {hvd.rank()} takes over {len(variables)} variables", stacklevel=1)
for v in variables:
    value = v.value if hvd.rank() == 0 else tf.zeros_like(v.value)
    v.assign(hvd.allreduce(value, op=hvd.Sum))
""",
    "average-gradient": """
size = float(hvd.size())
parts = [g / size for g in tape.gradient(loss, sources)]
return hvd.grouped_allreduce(parts, op=hvd.Sum)
""",
    "average-metric": """
every = hvd.allgather(tf.constant([[right, seen]], tf.int64)).numpy()  # (p, 2)
return float(every[:, 0].sum() / every[:, 1].sum())
""",
}
