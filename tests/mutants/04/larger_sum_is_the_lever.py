MISUNDERSTANDING = "What takes longer in sum is what to make faster."
FAILS = {
    "lever-found",
}
REPLACE = {
    "best-lever": """
lever = "buffer" if buffer == 0 else "input" if sum(produce) > sum(steps) else "step"
""",
}
