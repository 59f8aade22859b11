MISUNDERSTANDING = "What does not fit gets what there is."
FAILS = {"never-runs-refused"}
REPLACE = {
    "resources": """
memory, minutes = math.ceil(1.25 * need["memory"]), math.ceil(1.5 * need["seconds"] / 60)
minutes = min(minutes, cluster["seconds"] // 60)
most = min(cluster["cores"] // need["threads"], cluster["memory"] // memory)
most = max(most, 1)
p = need["ranks"]
nodes = next(n for n in range(1, p + 1) if p % n == 0 and p // n <= most)
time = f"{minutes // 60:02}:{minutes % 60:02}:00"
options = {"nodes": nodes, "ranks_per_node": p // nodes, "cpus_per_rank": need["threads"]}
return options | {"memory": f"{memory}M", "time": time}
""",
}
