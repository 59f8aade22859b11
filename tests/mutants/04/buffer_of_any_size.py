MISUNDERSTANDING = "A buffer is there or not; its size makes no difference."
FAILS = {
    "run-by-hand",
    "run-buffers",
}
REPLACE = {
    "run-seconds": """
if buffer == 0:
    done = float(sum(produce) + sum(steps))
else:
    done = produce[0] + steps[-1] + sum(max(p, s) for p, s in zip(produce[1:], steps[:-1], strict=True))
""",
}
