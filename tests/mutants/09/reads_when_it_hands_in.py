MISUNDERSTANDING = "A worker that waits has read the weights when it handed in, not when it begins."
FAILS = {"bounded-by-hand", "bounded-distribution", "bounded-ends"}
REPLACE = {
    "bounded": """
now, done, read = 0.0, [0] * p, [0] * p
busy = {worker: float(seconds[worker][0]) for worker in range(p)}  # until when
waiting, updates = set(), []
while busy:
    worker = min(busy, key=busy.get)
    now = busy.pop(worker)
    updates.append((now, worker, len(updates) - read[worker]))
    done[worker] += 1
    read[worker] = len(updates)
    if done[worker] < m:
        waiting.add(worker)
    for other in [w for w in waiting if done[w] <= min(done) + bound]:
        waiting.remove(other)
        busy[other] = now + float(seconds[other][done[other]])
""",
}
