MISUNDERSTANDING = "The world size is wrong where each rank is alone."
FAILS = {"wrong-world-size"}
REPLACE = {
    "diagnose": """
said = "\\n".join(record["job log"])
for kind, words in [
    ("out of time", "DUE TO TIME LIMIT"),
    ("preempted", "DUE TO PREEMPTION"),
    ("out of memory", "oom"),
]:
    if words in said:
        return kind
if record["queue"]:
    never = ("Partition", "DependencyNeverSatisfied", "BadConstraints", "AssocMax", "QOSMax", "Invalid")
    reason = record["queue"].split()[-1]
    return "never runs" if reason.startswith(never) else "nothing wrong"
p = record["asked"]["nodes"] * record["asked"]["ranks_per_node"]
sizes = {found["world size"] for found in record["returned"] if "world size" in found}
if (p > 1 and 1 in sizes) or any(error["type"] == "WrongWorldSize" for error in record["errors"]):
    return "wrong world size"
return "dead rank" if any(rank["exit code"] for rank in record["ranks"]) else "nothing wrong"
""",
}
