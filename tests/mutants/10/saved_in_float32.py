MISUNDERSTANDING = "Weights need no more than seven digits."
FAILS = {"survives-a-kill", "survives-a-torn-write", "told-by-rank-0"}
REPLACE = {
    "save": """
if comm.rank == 0:
    short = {name: state[name].astype(np.float32) for name in "wv"}
    write_checkpoint(path, {"step": state["step"], **short, "of": label(recipe, seed)})
""",
}
