UNUSUAL = "No wrapped tape: each gradient is all-reduced by hand, counts in an array of int64."
REPLACE = {
    "average-gradient": """
gradients = tape.gradient(loss, sources)
return [hvd.allreduce(g, op=hvd.Average, name=f"gradient-{i}") for i, g in enumerate(gradients)]
""",
    "average-metric": """
total = hvd.allreduce(tf.constant([[right], [seen]], tf.int64), op=hvd.Sum).numpy()
return int(total[0, 0]) / int(total[1, 0])
""",
    "broadcast": """
for v in variables:
    v.assign(hvd.broadcast(v.value, 0))
""",
}
