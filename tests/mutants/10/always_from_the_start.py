MISUNDERSTANDING = "Resuming is what Slurm does when it requeues a job."
FAILS = {"survives-a-kill", "survives-a-torn-write", "told-by-rank-0", "strangers-refused"}
REPLACE = {
    "resume": """
return start(recipe, seed)
""",
}
