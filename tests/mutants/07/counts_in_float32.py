MISUNDERSTANDING = "Counts of images are small numbers, which any format holds."
FAILS = {"metric-over-all-ranks"}
REPLACE = {
    "average-metric": """right, seen = hvd.allreduce(tf.constant([right, seen], tf.float32), op=hvd.Sum)
return float(right / seen)""",
}
