MISUNDERSTANDING = "A checkpoint holds the weights; the rest comes back by itself."
FAILS = {"survives-a-kill", "survives-a-torn-write", "told-by-rank-0"}
REPLACE = {
    "save": """
if comm.rank == 0:
    write_checkpoint(path, {**state, "v": 0 * state["v"], "of": label(recipe, seed)})
""",
}
