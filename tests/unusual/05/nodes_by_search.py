UNUSUAL = "All layouts are tried, memory is written in MiB, and time with days; the job is submitted by name."
REPLACE = {
    "resources": """
memory = -(-need["memory"] * 5 // 4)
minutes = int(-(-need["seconds"] * 3 // 120))
there, p = cluster["nodes"], need["ranks"]
fits = [
    (nodes, each)
    for nodes in range(1, there + 1)
    for each in range(1, p + 1)
    if nodes * each == p and each * need["threads"] <= cluster["cores"] and each * memory <= cluster["memory"]
]
if not fits or minutes * 60 > cluster["seconds"]:
    raise ValueError("it fits nowhere")
(hours, minutes), (nodes, each) = divmod(minutes, 60), min(fits)
options = dict(nodes=nodes, ranks_per_node=each, cpus_per_rank=need["threads"], memory=f"{memory}MiB")
options["time"] = f"{hours // 24}-{hours % 24:02}:{minutes:02}:00"
return options
""",
    "run-on": """
options = resources(need, cluster)
return submit(program, name="a-name-of-mine", **options)
""",
}
