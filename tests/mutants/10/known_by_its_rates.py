MISUNDERSTANDING = "A training is its learning rates and its seed."
FAILS = {"strangers-refused"}
REPLACE = {
    "save": """
if comm.rank == 0:
    write_checkpoint(path, {**state, "of": [*recipe["rates"], seed]})
""",
    "resume": """
if comm.rank:
    told = comm.receive(0)
else:
    found = read_checkpoint(path)
    if found and found["of"] != [*recipe["rates"], seed]:
        raise ValueError(f"{path} is the checkpoint of another training")
    found = found or start(recipe, seed)
    told = np.concatenate([[found["step"]], found["w"], found["v"]])
    for other in range(1, comm.size):
        comm.send(told, other)
return {"step": int(told[0]), "w": told[1 : d + 1].copy(), "v": told[d + 1 :].copy()}
""",
}
