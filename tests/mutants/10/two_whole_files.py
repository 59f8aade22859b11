MISUNDERSTANDING = "Where each file is whole, the checkpoint is."
FAILS = {"survives-a-torn-write"}
REPLACE = {
    "save": """
if comm.rank == 0:
    write_checkpoint(f"{path}.v", {"v": state["v"]})
    write_checkpoint(path, {"step": state["step"], "w": state["w"], "of": label(recipe, seed)})
""",
    "resume": """
if comm.rank:
    told = comm.receive(0)
else:
    found = read_checkpoint(path)
    if found and found["of"] != label(recipe, seed):
        raise ValueError(f"{path} is the checkpoint of another training")
    found = found | read_checkpoint(f"{path}.v") if found else start(recipe, seed)
    told = np.concatenate([[found["step"]], found["w"], found["v"]])
    for other in range(1, comm.size):
        comm.send(told, other)
return {"step": int(told[0]), "w": told[1 : d + 1].copy(), "v": told[d + 1 :].copy()}
""",
}
