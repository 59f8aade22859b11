MISUNDERSTANDING = "An all-reduce adds up whatever it is given."
FAILS = {"metric-over-all-ranks"}
REPLACE = {
    "average-metric": "return float(hvd.allreduce(right, op=hvd.Sum) / hvd.allreduce(seen, op=hvd.Sum))"
}
