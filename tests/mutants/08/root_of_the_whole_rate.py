MISUNDERSTANDING = "The square-root rule takes the root of kη, not of k."
FAILS = {"rules-by-hand"}
REPLACE = {
    "target-rate": """
return {"none": lr, "linear": lr * k, "sqrt": (lr * k) ** 0.5}[rule]
"""
}
