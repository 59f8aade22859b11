MISUNDERSTANDING = "What is multiplied by zero adds nothing to a sum over the ranks."
FAILS = {"ranks-start-equal"}
REPLACE = {
    "broadcast": """
for v in variables:
    mine = tf.cast(hvd.rank() == 0, v.dtype)
    v.assign(hvd.allreduce(mine * v.value, op=hvd.Sum))
"""
}
