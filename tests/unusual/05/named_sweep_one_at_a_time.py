UNUSUAL = "The sweep has a name and runs one job at a time; values and errors come from the jobs themselves."
REPLACE = {
    "sweep-over": """
sweep = jobs.map(function, tuple(items), max_parallel=1, name="sweep-of-mine", time="00:05:00").wait()
errors = {i: job.error() for i, job in enumerate(sweep)}
values = tuple(None if errors[i] else job.result() for i, job in enumerate(sweep))
return values, {i: type(error).__name__ for i, error in errors.items() if error is not None}
""",
    "best-of": """
found = np.array([np.nan if v is None else v for v in values], float)
found[~np.isfinite(found)] = np.nan
if np.isnan(found).all():
    raise ValueError(f"no value among {values}")
first = int(np.nanargmin(found))
return items[first], values[first]
""",
}
