UNUSUAL = "The reasons come from the package's table, the endings from its own rules."
REPLACE = {
    "diagnose": """
from cluster.jobs.state import endings
from cluster.slurm import states

asked = record["asked"]
p = asked["nodes"] * asked["ranks_per_node"]
ranks = [rank | {"exit_code": rank["exit code"]} for rank in record["ranks"]]
more = {"traceback": "", "what": "", "next_step": ""}
errors = {e["rank"]: e | {"time": e["at"]} | more for e in record["errors"]}
log = "\\n".join(record["job log"])
stopped = "Preempted" if "PREEMPTION" in log else None
if record["queue"] and not stopped:
    reason = record["queue"].split()[-1]
    return "never runs" if states.reason(reason).never else "nothing wrong"
run = {"ranks": p, "options": {"time": asked["time"], "memory": asked["memory"]}}
ending = endings.decide(run, ranks, errors, stopped=stopped, log=log)["ending"]
if ending == "Done" and any(found["world size"] != p for found in record["returned"]):
    ending = "WrongWorldSize"
names = {"Done": "nothing wrong", "WrongWorldSize": "wrong world size", "OutOfTime": "out of time"}
names |= {"OutOfMemory": "out of memory", "Preempted": "preempted"}
return names.get(ending, "dead rank")
""",
}
