MISUNDERSTANDING = "Two ranks train twice as fast, also where the code knows of one."
FAILS = {"sweep-recorded", "runs-recomputed"}
REPLACE = {
    "submit-sweep": """
return jobs.map(function, items, ranks_per_node=2)
"""
}
