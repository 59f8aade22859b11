MISUNDERSTANDING = "Weights need no more than seven digits."
FAILS = {"survives-a-kill", "survives-a-torn-write", "told-by-rank-0"}
REPLACE = {
    "save": """
if comm.rank == 0:
    write_checkpoint(path, {"step": state["step"], "w": state["w"].astype(np.float32), "v": state["v"].astype(np.float32), "of": label(recipe, seed)})
""",
}
