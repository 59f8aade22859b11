MISUNDERSTANDING = "A number that all rates have a part in tells trainings apart."
FAILS = {"strangers-refused"}
REPLACE = {
    "save": """
if comm.rank == 0:
    write_checkpoint(path, {**state, "of": seed + sum(recipe["rates"])})
""",
    "resume": """
if comm.rank:
    told = comm.receive(0)
else:
    found = read_checkpoint(path)
    if found and found["of"] != seed + sum(recipe["rates"]):
        raise ValueError(f"{path} is the checkpoint of another training")
    found = found or start(recipe, seed)
    told = np.concatenate([[found["step"]], found["w"], found["v"]])
    for other in range(1, comm.size):
        comm.send(told, other)
return {"step": int(told[0]), "w": told[1 : d + 1].copy(), "v": told[d + 1 :].copy()}
""",
}
