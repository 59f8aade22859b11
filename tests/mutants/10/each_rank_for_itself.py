MISUNDERSTANDING = "Ranks with equal weights stay equal."
FAILS = {
    "step-on-ranks",
    "steps-on-ranks",
    "survives-a-kill",
    "survives-a-torn-write",
    "step-cost-predicted",
    "prediction-sealed",
    "recipe-on-ranks",
    "medal-bronze",
    "medal-silver",
    "medal-gold",
}
REPLACE = {
    "update": """
mine = positions(step, len(y), n, seed)
v = recipe["momentum"] * v + gradient_on(comm, w, x[mine], y[mine], width) / n
return {"step": step + 1, "w": w - rate * v, "v": v}
""",
}
