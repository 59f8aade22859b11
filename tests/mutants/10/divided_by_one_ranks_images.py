MISUNDERSTANDING = "A rank has seen n images, so that the mean is a sum over n."
FAILS = {"step-on-ranks", "steps-on-ranks", "recipe-on-ranks", "medal-bronze", "medal-silver", "medal-gold"}
REPLACE = {
    "update": """
mine = positions(step, len(y), n, seed)
total = allreduce(comm, gradient_on(comm, w, x[mine], y[mine], width))
v = recipe["momentum"] * v + total / n
return {"step": step + 1, "w": w - rate * v, "v": v}
""",
}
