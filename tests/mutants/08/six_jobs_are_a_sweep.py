MISUNDERSTANDING = "Six jobs submitted one by one are a sweep."
FAILS = {"sweep-recorded", "runs-recomputed"}
REPLACE = {
    "submit-sweep": """
return [jobs.submit(function, item) for item in items]
"""
}
