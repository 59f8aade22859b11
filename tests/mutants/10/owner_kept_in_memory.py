MISUNDERSTANDING = "Who has written a checkpoint remembers whose it is."
FAILS = {"strangers-refused"}
REPLACE = {
    "save": """
if comm.rank == 0:
    globals().setdefault("OWNERS", {})[str(path)] = label(recipe, seed)
    write_checkpoint(path, state)
""",
    "resume": """
if comm.rank:
    told = comm.receive(0)
else:
    found, mine = read_checkpoint(path), label(recipe, seed)
    if globals().get("OWNERS", {}).get(str(path), mine) != mine:
        raise ValueError(f"{path} is the checkpoint of another training")
    found = found or start(recipe, seed)
    told = np.concatenate([[found["step"]], found["w"], found["v"]])
    for other in range(1, comm.size):
        comm.send(told, other)
return {"step": int(told[0]), "w": told[1 : d + 1].copy(), "v": told[d + 1 :].copy()}
""",
}
