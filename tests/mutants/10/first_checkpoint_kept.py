MISUNDERSTANDING = "A checkpoint that is there must not be touched."
FAILS = {"survives-a-kill", "survives-a-torn-write"}
REPLACE = {
    "save": """
if comm.rank == 0 and not Path(path).exists():
    write_checkpoint(path, {**state, "of": label(recipe, seed)})
""",
}
