MISUNDERSTANDING = "A sweep is one job, which goes through the items."
FAILS = {"best-found", "sweep-again", "sweep-failures", "sweep-values"}
REPLACE = {
    "sweep-over": """
def all_of_them():
    values, errors = [], {}
    for i, item in enumerate(items):
        try:
            values.append(function(item))
        except Exception:
            values.append(None)
            errors[i] = "RankFailed"
    return values, errors

return submit(all_of_them).result(progress=False)
""",
}
