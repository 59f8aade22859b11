MISUNDERSTANDING = "An item without a value has failed."
FAILS = {"sweep-failures"}
REPLACE = {
    "sweep-over": """
sweep = jobs.map(function, items)
values = sweep.results(failed=None, progress=False)
return values, {i: type(sweep[i].error()).__name__ for i, value in enumerate(values) if value is None}
""",
}
