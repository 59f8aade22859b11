UNUSUAL = "The sweep has a name, runs one job at a time, and items in a tuple; rows come from a loop."
REPLACE = {
    "submit-sweep": """
from cluster.jobs import map as submit_all

return submit_all(function, tuple(items), max_parallel=1, name="sweep-of-mine", time="00:05:00")
""",
    "recipes": """
rows = [["small", 1, "none", "none"], ["naive", 16, "none", "none"]]
rows.append(["sqrt", 16, "sqrt", "none"])
for name, warmup in zip(["linear", "constant", "gradual"], WARMUPS, strict=False):
    rows.append([name, 16, "linear", warmup])
""",
}
