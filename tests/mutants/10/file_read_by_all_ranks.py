MISUNDERSTANDING = "All ranks see the same disk."
FAILS = {"told-by-rank-0"}
REPLACE = {
    "resume": """
found = read_checkpoint(path)
if found and found["of"] != label(recipe, seed):
    raise ValueError(f"{path} is the checkpoint of another training")
found = found or start(recipe, seed)
return {name: found[name] for name in ("step", "w", "v")}
""",
}
