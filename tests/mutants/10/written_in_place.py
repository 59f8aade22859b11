MISUNDERSTANDING = "Writing takes an instant; nobody is killed just then."
FAILS = {"survives-a-torn-write"}
REPLACE = {
    "save": """
if comm.rank == 0:
    with open(path, "wb") as file:
        np.savez(file, step=state["step"], w=state["w"], v=state["v"], of=label(recipe, seed))
""",
    "resume": """
if comm.rank:
    told = comm.receive(0)
else:
    found = dict(np.load(path)) if Path(path).exists() else None
    if found and found["of"] != label(recipe, seed):
        raise ValueError(f"{path} is the checkpoint of another training")
    found = found or start(recipe, seed)
    told = np.concatenate([[found["step"]], found["w"], found["v"]])
    for other in range(1, comm.size):
        comm.send(told, other)
return {"step": int(told[0]), "w": told[1 : d + 1].copy(), "v": told[d + 1 :].copy()}
""",
}
