MISUNDERSTANDING = "All variables may travel as float32, the format of the weights."
FAILS = {"ranks-start-equal"}
REPLACE = {
    "broadcast": """
for v in variables:
    v.assign(tf.cast(hvd.broadcast(tf.cast(v.value, tf.float32), root_rank=0), v.dtype))
"""
}
