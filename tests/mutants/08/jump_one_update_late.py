MISUNDERSTANDING = "A constant warmup of W updates includes update W."
FAILS = {"warmup-by-hand", "warmup-edges", "schedule-of-each", "runs-recomputed"}
REPLACE = {
    "warmed-up": """
if kind == "none" or steps == 0:
    return target
if kind == "constant":
    return lr if step <= steps else target
return lr + (target - lr) * min(step / steps, 1)
"""
}
