MISUNDERSTANDING = "A sweep in which one item fails has no results."
FAILS = {"best-found", "sweep-again", "sweep-failures"}
REPLACE = {
    "sweep-over": """
sweep = jobs.map(function, items)
errors = {i: type(error).__name__ for i, error in sweep.wait(progress=False).failures.items()}
return ([None] * len(items) if errors else sweep.results(progress=False)), errors
""",
}
