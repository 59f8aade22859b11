MISUNDERSTANDING = "All ranks have the same state, so that it does no harm that all write it."
FAILS = {"told-by-rank-0"}
REPLACE = {
    "save": """
write_checkpoint(path, {**state, "of": label(recipe, seed)})
""",
}
