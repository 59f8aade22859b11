MISUNDERSTANDING = "Staleness is how many gradients a worker is ahead of the slowest."
FAILS = {"bounded-by-hand", "bounded-distribution", "bounded-ends"}
REPLACE = {
    "bounded": """
now, done, read = 0.0, [0] * p, [0] * p
busy = {worker: float(seconds[worker][0]) for worker in range(p)}  # until when
waiting, updates = set(), []
while busy:
    worker = min(busy, key=busy.get)
    now = busy.pop(worker)
    updates.append((now, worker, done[worker] - min(done)))
    done[worker] += 1
    if done[worker] < m:
        waiting.add(worker)
    for other in [w for w in waiting if done[w] <= min(done) + bound]:
        waiting.remove(other)
        read[other] = len(updates)
        busy[other] = now + float(seconds[other][done[other]])
""",
}
