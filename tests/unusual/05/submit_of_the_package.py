UNUSUAL = "submit and map are the package's own attributes, not the imported names."
REPLACE = {
    "run-on": """
import cluster as package

return package.submit(program, **resources(need, cluster))
""",
    "sweep-over": """
from cluster.jobs import map as run_all

sweep = run_all(function, items).wait()
errors = [job.error() for job in sweep]
values = [None if error else job.result() for error, job in zip(errors, sweep)]
return values, {i: error.__class__.__name__ for i, error in enumerate(errors) if error}
""",
}
