MISUNDERSTANDING = "What is under way without a step is waited for, to the end."
FAILS = {
    "profile-waits",
}
REPLACE = {
    "waited-for": """
last = max(end for _, _, end in events)
before = [(phase, min(begin, last), min(end, last)) for phase, begin, end in events]
others = {phase for phase, _, _ in events} - {"step"}
seconds = {p: both_busy(before, [p]) - both_busy(before, [p, "step"]) for p in others}
""",
}
