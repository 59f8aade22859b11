MISUNDERSTANDING = "Errors are named by the item."
FAILS = {"sweep-again", "sweep-failures"}
REPLACE = {
    "sweep-over": """
sweep = jobs.map(function, items)
values = sweep.results(failed=None, progress=False)
return values, {str(items[i]): type(error).__name__ for i, error in sweep.failures.items()}
""",
}
