UNUSUAL = "submit has another name and some of its arguments already; threads wait for the jobs of a sweep."
REPLACE = {
    "run-on": """
from functools import partial

from cluster import submit as go

prepared = partial(go, program)
return prepared(**resources(need, cluster))
""",
    "sweep-over": """
from concurrent.futures import ThreadPoolExecutor

from cluster import submit as go

def one(item):
    job = go(function, item)
    error = job.wait().error()
    return (None, type(error).__name__) if error else (job.result(), None)

with ThreadPoolExecutor(2) as pool:
    found = list(pool.map(one, items))
return [value for value, _ in found], {i: error for i, (_, error) in enumerate(found) if error}
""",
}
