UNUSUAL = "Profiles by a sweep over ends, runs by a queue of events, the cache by sorting, all in NumPy."
REPLACE = {
    "both-busy": """
ends = sorted({t for event in events for t in event[1:]})
cuts = np.array(ends, dtype=float)
middles = (cuts[:-1] + cuts[1:]) / 2
busy = np.ones(len(middles), bool)
for phase in phases:
    mine = np.zeros(len(middles), bool)
    for name, begin, end in events:
        if name == phase:
            mine |= (begin < middles) & (middles < end)
    busy &= mine
seconds = float(np.diff(cuts)[busy].sum()) if len(cuts) > 1 else 0.0
""",
    "waited-for": """
last = max(e for p, _, e in events if p == "step")
cuts = sorted({min(t, last) for _, *ends in events for t in ends})
seconds = {p: 0.0 for p, _, _ in events if p != "step"}
for b, e in zip(cuts, cuts[1:]):
    running = {p for p, begin, end in events if begin <= b and e <= end}
    for p in running if "step" not in running else ():
        seconds[p] += e - b
""",
    "images-per-second": """
bounds = [calls / t for t, calls, _ in stages] + [cores / t for t, _, on in stages if on]
computing = sum(t for t, _, on in stages if on)
rate = min(bounds + ([cores / computing] if computing else []))
""",
    "run-seconds": """
n = len(steps)
made, taken, ended = (np.zeros(n + 1) for _ in range(3))
for i in range(1, n + 1):
    if buffer == 0:
        begins = ended[i - 1]
    else:
        begins = max(made[i - 1], taken[max(0, i - buffer)])
    made[i] = begins + produce[i - 1]
    taken[i] = max(made[i], ended[i - 1])
    ended[i] = taken[i] + steps[i - 1]
done = float(ended[n])
""",
    "place-cache": """
prefix = [stages[: i + 1] for i in range(len(stages))]
fit = [p for p in prefix if not any(r for _, _, r in p) and n * p[-1][1] <= memory]
place = len(min(fit, key=lambda p: (-sum(t for t, _, _ in p), p[-1][1]))) if fit else 0
""",
}
