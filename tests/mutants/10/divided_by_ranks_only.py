MISUNDERSTANDING = "A mean over the ranks is what an all-reduce owes; images have nothing to do with it."
FAILS = {"step-on-ranks", "steps-on-ranks", "recipe-on-ranks", "medal-bronze", "medal-silver", "medal-gold"}
REPLACE = {
    "update": """
mine = positions(step, len(y), n, seed)
total = allreduce(comm, gradient_on(comm, w, x[mine], y[mine], width))
v = recipe["momentum"] * v + total / comm.size
return {"step": step + 1, "w": w - rate * v, "v": v}
""",
}
