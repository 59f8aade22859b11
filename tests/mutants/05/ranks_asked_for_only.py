MISUNDERSTANDING = "Memory, time and threads come of themselves."
FAILS = {"job-got-it"}
REPLACE = {
    "run-on": """
options = resources(need, cluster)
return submit(program, nodes=options["nodes"], ranks_per_node=options["ranks_per_node"])
""",
}
