MISUNDERSTANDING = "The device waits for a phase as long as that takes."
FAILS = {
    "profile-waits",
}
REPLACE = {
    "waited-for": """
last = max(end for phase, _, end in events if phase == "step")
before = [(phase, min(begin, last), min(end, last)) for phase, begin, end in events]
others = {phase for phase, _, _ in events} - {"step"}
seconds = {p: both_busy(before, [p]) for p in others}
""",
}
