MISUNDERSTANDING = "Each worker divides by its own images and the means are added up: k times too long."
FAILS = {"gradient-by-hand"}
REPLACE = {
    "batch-gradient": """
return (sums / seen[:, None]).sum(axis=0) + decay * w
"""
}
