MISUNDERSTANDING = "After an item that fails the others need not be run."
FAILS = {"sweep-again", "sweep-failures"}
REPLACE = {
    "sweep-over": """
values, errors = [None] * len(items), {}
for i, item in enumerate(items):
    try:
        values[i] = submit(function, item).result(progress=False)
    except jobs.JobFailed as error:
        errors[i] = type(error).__name__
        break
return values, errors
""",
}
