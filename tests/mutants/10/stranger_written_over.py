MISUNDERSTANDING = "Where the checkpoint is another training's, one begins anew and says nothing."
FAILS = {"strangers-refused"}
REPLACE = {
    "resume": """
if comm.rank:
    told = comm.receive(0)
else:
    found = read_checkpoint(path)
    if found and found["of"] != label(recipe, seed):
        found = None
    found = found or start(recipe, seed)
    told = np.concatenate([[found["step"]], found["w"], found["v"]])
    for other in range(1, comm.size):
        comm.send(told, other)
return {"step": int(told[0]), "w": told[1 : d + 1].copy(), "v": told[d + 1 :].copy()}
""",
}
