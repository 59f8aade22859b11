MISUNDERSTANDING = "The reasons that were seen are all that there are."
FAILS = {"never-runs"}
REPLACE = {
    "diagnose": """
said = "\\n".join(record["job log"])
ends = [("out of time", "DUE TO TIME LIMIT"), ("preempted", "DUE TO PREEMPTION"), ("out of memory", "oom")]
for kind, words in ends:
    if words in said:
        return kind
if record["queue"]:
    reason = record["queue"].split()[-1]
    never = {"PartitionConfig", "PartitionTimeLimit", "DependencyNeverSatisfied"}
    never.add("AssocMaxWallDurationPerJobLimit")
    return "never runs" if reason in never else "nothing wrong"
p = record["asked"]["nodes"] * record["asked"]["ranks_per_node"]
sizes = {found["world size"] for found in record["returned"]}
if sizes - {p} or any(error["type"] == "WrongWorldSize" for error in record["errors"]):
    return "wrong world size"
return "dead rank" if any(rank["exit code"] for rank in record["ranks"]) else "nothing wrong"
""",
}
