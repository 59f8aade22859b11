MISUNDERSTANDING = "The minutes stand before the first colon."
FAILS = {"job-got-it", "memory-and-time"}
REPLACE = {
    "resources": """
memory, minutes = math.ceil(1.25 * need["memory"]), math.ceil(1.5 * need["seconds"] / 60)
if 60 * minutes > cluster["seconds"]:
    raise ValueError("longer than a job may take")
most = min(cluster["cores"] // need["threads"], cluster["memory"] // memory)
if not most:
    raise ValueError("a rank fits on no node")
p = need["ranks"]
nodes = next(n for n in range(1, p + 1) if p % n == 0 and p // n <= most)
if nodes > cluster["nodes"]:
    raise ValueError("more nodes than there are")
time = f"{minutes}:00:00"
options = {"nodes": nodes, "ranks_per_node": p // nodes, "cpus_per_rank": need["threads"]}
return options | {"memory": f"{memory}M", "time": time}
""",
}
