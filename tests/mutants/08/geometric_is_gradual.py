MISUNDERSTANDING = "A geometric warmup has equal increments, too."
FAILS = {"warmup-by-hand", "warmup-edges"}
REPLACE = {
    "warmed-up": """
if kind == "none" or step >= steps:
    return target
return lr if kind == "constant" else lr + (target - lr) * step / steps
"""
}
