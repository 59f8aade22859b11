MISUNDERSTANDING = "Weight decay is part of the sum, so it is divided by the number of images."
FAILS = {"gradient-by-hand"}
# The linear rule without warmup is so sensitive that its first losses may show even this.
MAY_FAIL = {"runs-recomputed"}
REPLACE = {
    "batch-gradient": """
return (sums.sum(axis=0) + decay * w) / seen.sum()
"""
}
