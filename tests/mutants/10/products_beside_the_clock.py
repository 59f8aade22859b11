MISUNDERSTANDING = "gradient_sum and gradient_on return the same, so that either will do."
FAILS = {
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
total = allreduce(comm, gradient_sum(w, x[mine], y[mine], width))
v = recipe["momentum"] * v + total / (comm.size * n)
return {"step": step + 1, "w": w - rate * v, "v": v}
""",
}
