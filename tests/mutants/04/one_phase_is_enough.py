MISUNDERSTANDING = "At the same time means that any of the phases is under way."
FAILS = {
    "profile-busy",
}
REPLACE = {
    "both-busy": """
times = sorted({t for _, begin, end in events for t in (begin, end)})
seconds = 0.0
for begin, end in zip(times[:-1], times[1:], strict=True):
    under_way = {phase for phase, b, e in events if b <= begin and end <= e}
    seconds += (end - begin) * (bool(set(phases) & under_way))
""",
}
