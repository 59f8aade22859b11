MISUNDERSTANDING = "Results are sorted."
FAILS = {"best-found", "sweep-again", "sweep-failures", "sweep-values"}
REPLACE = {
    "sweep-over": """
sweep = jobs.map(function, items)
values = sweep.results(failed=None, progress=False)
values = sorted(values, key=lambda value: math.inf if value is None else value)
return values, {i: type(error).__name__ for i, error in sweep.failures.items()}
""",
}
