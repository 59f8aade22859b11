MISUNDERSTANDING = "What has failed is not part of the results."
FAILS = {"best-found", "sweep-again", "sweep-failures"}
REPLACE = {
    "sweep-over": """
sweep = jobs.map(function, items)
values = [value for value in sweep.results(failed=None, progress=False) if value is not None]
return values, {i: type(error).__name__ for i, error in sweep.failures.items()}
""",
}
