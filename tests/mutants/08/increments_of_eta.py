MISUNDERSTANDING = "The gradual warmup adds the small rate once more at each update."
FAILS = {"warmup-by-hand", "warmup-edges"}
REPLACE = {
    "warmed-up": """
if kind == "none" or step >= steps:
    return target
if kind == "constant":
    return lr
if kind == "geometric":
    return lr * (target / lr) ** (step / steps)
return min(lr * (step + 1), target)
"""
}
