MISUNDERSTANDING = "Momentum is a moving mean: m of the old and 1 - m of the new."
FAILS = {"step-on-ranks", "steps-on-ranks", "recipe-on-ranks", "medal-bronze", "medal-silver", "medal-gold"}
REPLACE = {
    "update": """
mine = positions(step, len(y), n, seed)
total = allreduce(comm, gradient_on(comm, w, x[mine], y[mine], width))
m = recipe["momentum"]
v = m * v + (1 - m) * total / (comm.size * n)
return {"step": step + 1, "w": w - rate * v, "v": v}
""",
}
