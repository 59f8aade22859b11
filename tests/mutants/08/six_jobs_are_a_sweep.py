MISUNDERSTANDING = "Six jobs submitted one by one are a sweep."
FAILS = {"sweep-recorded", "runs-recomputed", "conclusions-measured", "conclusions-beyond"}
REPLACE = {
    "submit-sweep": """
return [jobs.submit(train, item) for item in items]
"""
}
