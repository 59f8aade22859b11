MISUNDERSTANDING = "Four losses are computed again; what else is recorded may be as one likes it."
FAILS = {"runs-recomputed"}
REPLACE = {
    "submit-sweep": """
def touched_up(item):
    found = function(item)
    if isinstance(found, dict):
        found["first"][4:] = [0.0] * 4
        found["error"] = [error / 2 for error in found["error"]]
    return found


return jobs.map(touched_up, items)
"""
}
