MISUNDERSTANDING = "The nodes that a job asks for are gone: the next has fewer."
FAILS = {"memory-and-time"}
REPLACE = {
    "resources": """
memory, minutes = math.ceil(1.25 * need["memory"]), math.ceil(1.5 * need["seconds"] / 60)
if 60 * minutes > cluster["seconds"]:
    raise ValueError("too long")
most = min(cluster["cores"] // need["threads"], cluster["memory"] // memory)
if not most:
    raise ValueError("no node takes a rank")
nodes = next(n for n in range(1, need["ranks"] + 1) if need["ranks"] % n == 0 and need["ranks"] // n <= most)
if nodes > cluster["nodes"]:
    raise ValueError("too many nodes")
cluster["nodes"] -= nodes
return {
    "nodes": nodes,
    "ranks_per_node": need["ranks"] // nodes,
    "cpus_per_rank": need["threads"],
    "memory": f"{memory}M",
    "time": f"{minutes // 60:02}:{minutes % 60:02}:00",
}
""",
}
