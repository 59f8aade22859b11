MISUNDERSTANDING = "A sweep is run again whenever its cell is."
FAILS = {"sweep-recorded"}
REPLACE = {
    "submit-sweep": """
return jobs.map(function, items, rerun=True)
"""
}
