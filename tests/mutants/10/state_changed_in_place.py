MISUNDERSTANDING = "A step may write the new state over the old one, since nobody needs that any more."
FAILS = {"step-on-ranks"}
REPLACE = {
    "update": """
mine = positions(step, len(y), n, seed)
total = allreduce(comm, gradient_on(comm, w, x[mine], y[mine], width))
v *= recipe["momentum"]
v += total / (comm.size * n)
w -= rate * v
return {"step": step + 1, "w": w, "v": v}
""",
}
