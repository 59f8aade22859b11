MISUNDERSTANDING = (
    "The mean of the ranks' accuracies is the accuracy, although the ranks saw different numbers."
)
FAILS = {"metric-over-all-ranks"}
REPLACE = {
    "average-metric": "return float(hvd.allreduce(tf.constant(right / seen, tf.float64), op=hvd.Average))"
}
