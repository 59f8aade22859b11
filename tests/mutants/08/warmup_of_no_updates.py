MISUNDERSTANDING = "There is always a warmup: with W = 0 the ramp divides by zero."
FAILS = {"warmup-edges"}
REPLACE = {
    "warmed-up": """
if kind == "none":
    return target
if kind == "constant":
    return lr if step < steps else target
part = min(step / steps, 1)
return lr * (target / lr) ** part if kind == "geometric" else lr + (target - lr) * part
"""
}
