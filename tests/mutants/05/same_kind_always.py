MISUNDERSTANDING = "A job that ended badly has a dead rank."
FAILS = {
    "dead-rank",
    "never-runs",
    "nothing-wrong",
    "out-of-memory",
    "out-of-time",
    "preempted",
    "wrong-world-size",
}
REPLACE = {
    "diagnose": """
return "dead rank"
""",
}
