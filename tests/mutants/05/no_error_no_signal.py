MISUNDERSTANDING = "A rank that failed has left an exception, or was ended by a signal."
FAILS = {"dead-rank"}
REPLACE = {
    "diagnose": """
said = "\\n".join(record["job log"])
ends = [("out of time", "DUE TO TIME LIMIT"), ("preempted", "DUE TO PREEMPTION"), ("out of memory", "oom")]
for kind, words in ends:
    if words in said:
        return kind
if record["queue"]:
    reason = record["queue"].split()[-1]
    never = ("Partition", "DependencyNeverSatisfied", "BadConstraints", "AssocMax", "QOSMax", "Invalid")
    return "never runs" if reason.startswith(never) else "nothing wrong"
p = record["asked"]["nodes"] * record["asked"]["ranks_per_node"]
sizes = {found["world size"] for found in record["returned"]}
if sizes - {p} or any(error["type"] == "WrongWorldSize" for error in record["errors"]):
    return "wrong world size"
signalled = any((rank["exit code"] or 0) < 0 for rank in record["ranks"])
return "dead rank" if record["errors"] or signalled else "nothing wrong"
""",
}
