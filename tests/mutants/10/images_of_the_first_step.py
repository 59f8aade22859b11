MISUNDERSTANDING = "positions is called once: a rank knows its images."
FAILS = {"steps-on-ranks", "recipe-on-ranks", "medal-bronze", "medal-silver", "medal-gold"}
REPLACE = {
    "update": """
mine = positions(0, len(y), n, seed)
total = allreduce(comm, gradient_on(comm, w, x[mine], y[mine], width))
v = recipe["momentum"] * v + total / (comm.size * n)
return {"step": step + 1, "w": w - rate * v, "v": v}
""",
}
