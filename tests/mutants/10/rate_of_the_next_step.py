MISUNDERSTANDING = "Steps are counted from 1."
FAILS = {"step-on-ranks", "steps-on-ranks", "recipe-on-ranks", "medal-bronze", "medal-silver", "medal-gold"}
REPLACE = {
    "update": """
mine = positions(step, len(y), n, seed)
total = allreduce(comm, gradient_on(comm, w, x[mine], y[mine], width))
v = recipe["momentum"] * v + total / (comm.size * n)
rate = recipe["rates"][min(step + 1, len(recipe["rates"]) - 1)]
return {"step": step + 1, "w": w - rate * v, "v": v}
""",
}
