UNUSUAL = "Bytes with a header, written beside and renamed; the state goes from rank to rank."
REPLACE = {
    "save": """
if comm.rank == 0:
    head = json.dumps({"step": int(state["step"]), "of": [recipe, seed]}).encode()
    beside = Path(f"{path}.new")
    with open(beside, "wb") as file:
        file.write(len(head).to_bytes(8, "little") + head + state["w"].tobytes() + state["v"].tobytes())
        file.flush()
        os.fsync(file.fileno())
    os.rename(beside, path)
""",
    "resume": """
if comm.rank == 0:
    state = start(recipe, seed)
    if os.path.exists(path):
        text = Path(path).read_bytes()
        end = 8 + int.from_bytes(text[:8], "little")
        head = json.loads(text[8:end])
        if head["of"] != json.loads(json.dumps([recipe, seed])):
            raise ValueError("not mine")
        numbers = np.frombuffer(text[end:])
        state = {"step": head["step"], "w": numbers[:d].copy(), "v": numbers[d:].copy()}
else:
    step = int(comm.receive(comm.rank - 1)[0])
    state = {"step": step, "w": comm.receive(comm.rank - 1), "v": comm.receive(comm.rank - 1)}
if comm.rank + 1 < comm.size:
    for x in (np.array([state["step"]]), state["w"], state["v"]):
        comm.send(x, comm.rank + 1)
return state
""",
}
