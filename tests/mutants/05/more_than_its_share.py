MISUNDERSTANDING = "A rank that used more than its memory was ended for it."
FAILS = {"nothing-wrong"}
REPLACE = {
    "diagnose": """
said = "\\n".join(record["job log"])
ends = [("out of time", "DUE TO TIME LIMIT"), ("preempted", "DUE TO PREEMPTION"), ("out of memory", "oom")]
for kind, words in ends:
    if words in said:
        return kind
if record["queue"]:
    never = ("Partition", "DependencyNeverSatisfied", "BadConstraints", "AssocMax", "QOSMax", "Invalid")
    reason = record["queue"].split()[-1]
    return "never runs" if reason.startswith(never) else "nothing wrong"
if any((rank["memory"] or 0) > record["asked"]["memory"] for rank in record["ranks"]):
    return "out of memory"
p = record["asked"]["nodes"] * record["asked"]["ranks_per_node"]
sizes = {found["world size"] for found in record["returned"]}
if sizes - {p} or any(error["type"] == "WrongWorldSize" for error in record["errors"]):
    return "wrong world size"
return "dead rank" if any(rank["exit code"] for rank in record["ranks"]) else "nothing wrong"
""",
}
