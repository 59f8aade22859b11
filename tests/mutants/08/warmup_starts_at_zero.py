MISUNDERSTANDING = "A warmup starts at 0; gradual warmup starts at the rate of the small batch."
FAILS = {"warmup-by-hand", "warmup-edges"}
REPLACE = {
    "warmed-up": """
if kind == "none" or step >= steps:
    return target
if kind == "geometric":
    return lr * (target / lr) ** (step / steps)
return lr if kind == "constant" else target * step / steps
"""
}
