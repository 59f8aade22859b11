MISUNDERSTANDING = "Where the learning rate is applied is a matter of taste."
FAILS = {"step-on-ranks", "steps-on-ranks", "recipe-on-ranks", "medal-bronze", "medal-silver", "medal-gold"}
REPLACE = {
    "update": """
mine = positions(step, len(y), n, seed)
total = allreduce(comm, gradient_on(comm, w, x[mine], y[mine], width))
v = recipe["momentum"] * v + rate * total / (comm.size * n)
return {"step": step + 1, "w": w - v, "v": v}
""",
}
