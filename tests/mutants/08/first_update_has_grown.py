MISUNDERSTANDING = "Update 0 is the first of W increments, so it has grown already."
FAILS = {"warmup-by-hand", "warmup-edges"}
REPLACE = {
    "warmed-up": """
if kind == "none" or step >= steps:
    return target
if kind == "geometric":
    return lr * (target / lr) ** ((step + 1) / steps)
return lr if kind == "constant" else lr + (target - lr) * (step + 1) / steps
"""
}
