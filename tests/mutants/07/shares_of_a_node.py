MISUNDERSTANDING = "The mean of the shares is their sum over the ranks of the node."
FAILS = {"metric-over-all-ranks"}
REPLACE = {
    "average-metric": """
share = hvd.allreduce(tf.constant(right / seen, tf.float64), op=hvd.Sum)
return float(share / hvd.local_size())
"""
}
