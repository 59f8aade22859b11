MISUNDERSTANDING = "Each worker adds its own weight decay before the sums are added up."
FAILS = {"gradient-by-hand"}
REPLACE = {
    "batch-gradient": """
return sums.sum(axis=0) / seen.sum() + len(sums) * decay * w
"""
}
