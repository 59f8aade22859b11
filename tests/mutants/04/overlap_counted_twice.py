MISUNDERSTANDING = "The seconds of a phase are the sum of its events."
FAILS = {
    "profile-busy",
}
REPLACE = {
    "both-busy": """
least = {p: sum(end - begin for phase, begin, end in events if phase == p) for p in phases}
seconds = float(least[phases[0]]) if len(phases) == 1 else 0.0
if len(phases) > 1:
    for phase, begin, end in events:
        for other, b, e in events:
            if phase == phases[0] and other == phases[1]:
                seconds += max(0.0, min(end, e) - max(begin, b))
""",
}
