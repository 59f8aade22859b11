MISUNDERSTANDING = "Each rank reports what it saw; its shard stands for all images."
FAILS = {"metric-over-all-ranks"}
REPLACE = {"average-metric": "return right / seen"}
