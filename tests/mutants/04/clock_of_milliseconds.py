MISUNDERSTANDING = "A profile is fine enough in milliseconds."
FAILS = {
    "profile-busy",
}
REPLACE = {
    "both-busy": """
t = np.arange(0, max(end for _, _, end in events), 0.001) + 0.0005
busy = np.ones(len(t), bool)
for phase in phases:
    under_way = np.zeros(len(t), bool)
    for name, begin, end in events:
        if name == phase:
            under_way |= (begin <= t) & (t < end)
    busy &= under_way
seconds = 0.001 * float(busy.sum())
""",
}
