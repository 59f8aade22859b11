MISUNDERSTANDING = "Update 0 is the first of W increments, so it has grown already."
FAILS = {"warmup-by-hand", "warmup-edges", "schedule-by-hand", "schedule-of-each", "runs-recomputed"}
REPLACE = {
    "warmed-up": """
if kind == "none" or step >= steps:
    return target
return lr if kind == "constant" else lr + (target - lr) * (step + 1) / steps
"""
}
