MISUNDERSTANDING = "No batch is more than sixteen times as large, so that the rules end there."
FAILS = {"rules-by-hand"}
REPLACE = {
    "target-rate": """
return lr * {"none": 1, "linear": min(k, 16), "sqrt": min(k, 16) ** 0.5}[rule]
"""
}
