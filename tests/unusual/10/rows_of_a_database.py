UNUSUAL = "The checkpoint is a row of a database; the label is the text of a dictionary."
REPLACE = {
    "save": """
import sqlite3

if comm.rank == 0:
    base = sqlite3.connect(path)
    with base:
        base.execute("CREATE TABLE IF NOT EXISTS state (one INTEGER PRIMARY KEY, of, step, w, v)")
        row = (repr((recipe, seed)), state["step"], state["w"].tobytes(), state["v"].tobytes())
        base.execute("REPLACE INTO state VALUES (1, ?, ?, ?, ?)", row)
    base.close()
""",
    "resume": """
import sqlite3

if comm.rank == 0:
    found = []
    if Path(path).exists():
        base = sqlite3.connect(path)
        if base.execute("SELECT name FROM sqlite_master WHERE name = 'state'").fetchone():
            found = base.execute("SELECT of, step, w, v FROM state").fetchall()
        base.close()
    if found and found[0][0] != repr((recipe, seed)):
        raise ValueError("not this training's")
    state = start(recipe, seed)
    if found:
        _, step, w, v = found[0]
        state = {"step": step, "w": np.frombuffer(w), "v": np.frombuffer(v)}
    for other in range(1, comm.size):
        comm.send(np.array([state["step"]]), other)
        comm.send(np.stack([state["w"], state["v"]]), other)
    return state
step = comm.receive(0).item()
w, v = comm.receive(0)
return {"step": step, "w": w, "v": v}
""",
}
