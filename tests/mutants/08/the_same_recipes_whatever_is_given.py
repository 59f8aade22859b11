MISUNDERSTANDING = "The experiment has one list of recipes, so the argument need not be looked at."
FAILS = {"sweep-recorded"}
REPLACE = {
    "submit-sweep": """
return jobs.map(train, recipes())
"""
}
