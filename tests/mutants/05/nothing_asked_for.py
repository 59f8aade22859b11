MISUNDERSTANDING = "A job gets what it needs of itself."
FAILS = {"job-got-it"}
REPLACE = {
    "run-on": """
return submit(program)
""",
}
