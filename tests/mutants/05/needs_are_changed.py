MISUNDERSTANDING = "What is to spare is added to the need itself."
FAILS = {"memory-and-time"}
REPLACE = {
    "resources": """
need["memory"] = math.ceil(1.25 * need["memory"])
need["seconds"] = 60 * math.ceil(1.5 * need["seconds"] / 60)
if need["seconds"] > cluster["seconds"]:
    raise ValueError("too long")
most = min(cluster["cores"] // need["threads"], cluster["memory"] // need["memory"])
nodes = [n for n in range(1, cluster["nodes"] + 1) if need["ranks"] % n == 0 and need["ranks"] // n <= most]
if not nodes:
    raise ValueError("it does not fit")
minutes = need["seconds"] // 60
return {
    "nodes": nodes[0],
    "ranks_per_node": need["ranks"] // nodes[0],
    "cpus_per_rank": need["threads"],
    "memory": f"{need['memory']}M",
    "time": f"{minutes // 60:02}:{minutes % 60:02}:00",
}
""",
}
