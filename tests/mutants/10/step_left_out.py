MISUNDERSTANDING = "Training goes on from the weights; which step it is matters to the log only."
FAILS = {"survives-a-kill", "survives-a-torn-write", "told-by-rank-0", "strangers-refused"}
REPLACE = {
    "save": """
if comm.rank == 0:
    write_checkpoint(path, {**state, "step": 0, "of": label(recipe, seed)})
""",
}
