MISUNDERSTANDING = "What fails has raised an error."
FAILS = {"sweep-failures"}
REPLACE = {
    "sweep-over": """
sweep = jobs.map(function, items)
values = sweep.results(failed=None, progress=False)
return values, dict.fromkeys(sweep.failures, "RankFailed")
""",
}
