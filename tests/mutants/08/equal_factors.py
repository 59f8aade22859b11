MISUNDERSTANDING = "A gradual warmup multiplies by the same factor in each update."
FAILS = {"warmup-by-hand", "warmup-edges"}
REPLACE = {
    "warmed-up": """
if kind == "none" or step >= steps:
    return target
return lr if kind == "constant" else lr * (target / lr) ** (step / steps)
"""
}
