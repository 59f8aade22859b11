MISUNDERSTANDING = "A sweep with failures is run again as a whole."
FAILS = {"sweep-again"}
REPLACE = {
    "sweep-over": """
sweep = jobs.map(function, items, rerun=True)
values = sweep.results(failed=None, progress=False)
return values, {i: type(error).__name__ for i, error in sweep.failures.items()}
""",
}
