MISUNDERSTANDING = "A constant warmup of W updates includes update W."
FAILS = {"warmup-by-hand", "warmup-edges"}
REPLACE = {
    "warmed-up": """
if kind == "none" or steps == 0:
    return target
if kind == "constant":
    return lr if step <= steps else target
part = min(step / steps, 1)
return lr * (target / lr) ** part if kind == "geometric" else lr + (target - lr) * part
"""
}
