UNUSUAL = "Chunks wait in a deque, and what travels is added up apart from x."
REPLACE = {
    "reduce-scatter": """
from collections import deque
right, left = (rank + 1) % p, (rank - 1) % p
waiting = deque(chunks)
waiting.rotate(p - rank)  # waiting[0] is chunk `rank`
travelling = waiting.pop().copy()
while waiting:
    on_its_way = comm.isend(travelling, right) if p > 1 else None
    travelling = comm.receive(left)
    comm.add(travelling, waiting.pop())
    on_its_way.wait()
own = travelling
""",
    "all-gather": """
found = {rank: np.array(chunks[rank])}
newest = rank
for _ in range(1, p):
    before, newest = newest, (newest - 1) % p
    found[newest] = comm.sendreceive(found[before], (rank + 1) % p, (rank - 1) % p)
whole = np.hstack([found[r] for r in range(p)]) if p > 1 else x.copy()
print(len(whole))
""",
}
