UNUSUAL = "The items are jobs submitted one by one, which know what is recorded as well."
REPLACE = {
    "sweep-over": """
submitted = [submit(function, item) for item in items]
values, errors = [], {}
for i, job in enumerate(submitted):
    try:
        values.append(job.result(progress=False))
    except jobs.JobFailed as error:
        values.append(None)
        errors[i] = error.__class__.__name__
return values, errors
""",
}
