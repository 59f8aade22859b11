MISUNDERSTANDING = "The noise calls for k, the number of updates for √k."
FAILS = {"rules-by-hand"}
REPLACE = {
    "target-rate": """
return lr * {"none": 1, "linear": k**0.5, "sqrt": k}[rule]
"""
}
