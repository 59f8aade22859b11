UNUSUAL = (
    "Values one job at a time, errors by what is raised; the job's options by keyword; s' from the two times."
)
REPLACE = {
    "run-on": """
asked = resources(need, cluster)
return submit(
    program,
    nodes=asked["nodes"],
    ranks_per_node=asked["ranks_per_node"],
    cpus_per_rank=asked["cpus_per_rank"],
    memory=asked["memory"],
    time=asked["time"],
)
""",
    "sweep-over": """
sweep = jobs.map(function, list(items))
try:
    values = sweep.results(progress=False)
except Exception:
    values = sweep.results(failed=None, progress=False)
return list(values), dict(sorted((i, e.__class__.__name__) for i, e in sweep.failures.items()))
""",
    "scaled": """
one, many = 1.0, s + (1 - s) / p
return s * one / many, one / many
""",
    "best-of": """
good = sorted((v, i) for i, v in enumerate(values) if v is not None and abs(v) < math.inf)
if not good:
    raise ValueError("no good value")
value, place = good[0]
return items[place], value
""",
}
