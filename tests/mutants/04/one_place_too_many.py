MISUNDERSTANDING = "The batch that is being made needs no place."
FAILS = {
    "run-by-hand",
    "run-buffers",
}
REPLACE = {
    "run-seconds": """
made, taken, done = 0.0, [], 0.0
for i, (making, step) in enumerate(zip(produce, steps, strict=True)):
    free = done if buffer == 0 else taken[i - buffer - 1] if i > buffer else 0.0
    made = max(made, free) + making
    taken.append(max(made, done))
    done = taken[-1] + step
""",
}
