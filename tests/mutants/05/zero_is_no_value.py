MISUNDERSTANDING = "A value that is not true is missing."
FAILS = {"sweep-values"}
REPLACE = {
    "sweep-over": """
sweep = jobs.map(function, items)
values = [value or None for value in sweep.results(failed=None, progress=False)]
return values, {i: type(error).__name__ for i, error in sweep.failures.items()}
""",
}
