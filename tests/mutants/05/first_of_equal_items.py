MISUNDERSTANDING = "The number of an item is where the list has it first."
FAILS = {"sweep-failures"}
REPLACE = {
    "sweep-over": """
sweep = jobs.map(function, items).wait()
values, errors = [], {}
for item, job in zip(items, sweep):
    error = job.error()
    values.append(None if error else job.result())
    if error:
        errors[items.index(item)] = type(error).__name__
return values, errors
""",
}
