MISUNDERSTANDING = "Weight decay is part of the sum, so it is divided by the number of images."
FAILS = {"gradient-by-hand"}
REPLACE = {
    "batch-gradient": """
return (sums.sum(axis=0) + decay * w) / seen.sum()
"""
}
