MISUNDERSTANDING = "A warmup starts at 0; gradual warmup starts at the rate of the small batch."
FAILS = {"warmup-by-hand", "warmup-edges", "schedule-by-hand", "schedule-of-each", "runs-recomputed"}
REPLACE = {
    "warmed-up": """
if kind == "none" or step >= steps:
    return target
return lr if kind == "constant" else target * step / steps
"""
}
