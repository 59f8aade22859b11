UNUSUAL = "A file for each step, of which the last counts; the recipe is in it; the state goes down a tree."
REPLACE = {
    "save": """
import pickle
import tempfile

if comm.rank == 0:
    with tempfile.NamedTemporaryFile(dir=Path(path).parent, delete=False) as file:
        pickle.dump((recipe, seed, state), file)
    Path(file.name).rename(f"{path}-{state['step']:06}")
""",
    "resume": """
import pickle

state = None
if comm.rank == 0:
    path = Path(path)
    all_of_them = sorted(path.parent.glob(path.name + "-*"))
    state = start(recipe, seed)
    if all_of_them:
        whose, its_seed, state = pickle.loads(all_of_them[-1].read_bytes())
        if (whose, its_seed) != (recipe, seed):
            raise ValueError("another recipe, or another seed")
else:
    told = comm.receive((comm.rank - 1) // 2)
    state = {"step": round(told[-1]), "w": told[:d], "v": told[d:-1]}
for child in (2 * comm.rank + 1, 2 * comm.rank + 2):
    if child < comm.size:
        comm.send(np.concatenate([state["w"], state["v"], [float(state["step"])]]), child)
return state
""",
}
