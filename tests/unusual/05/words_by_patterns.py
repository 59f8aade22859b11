UNUSUAL = "Kinds by patterns, time without a leading zero, the lowest by masks, the fit by a pseudo-inverse."
REPLACE = {
    "resources": """
ranks, threads = need["ranks"], need["threads"]
memory = -(-need["memory"] * 5 // 4)
minutes = -(-need["seconds"] * 3 // 120)
fits = [
    (n, ranks // n)
    for n in range(1, cluster["nodes"] + 1)
    if ranks % n == 0
    and ranks // n * threads <= cluster["cores"]
    and ranks // n * memory <= cluster["memory"]
    and minutes * 60 <= cluster["seconds"]
]
if not fits:
    raise ValueError(f"{need} fits nowhere on {cluster}")
hours, minutes = divmod(minutes, 60)
return dict(
    zip(RESOURCES, (*fits[0], threads, f"{memory}M", f"{hours}:{minutes:02d}:00"), strict=True)
)
""",
    "best-of": """
x = np.array([np.nan if v is None else v for v in values], float)
x[~np.isfinite(x)] = np.nan
if np.isnan(x).all():
    raise ValueError("nothing to choose from")
i = int(np.nanargmin(x))
return items[i], values[i]
""",
    "diagnose": """
import re

log = " ".join(record["job log"])
if found := re.search(r"DUE TO (TIME LIMIT|PREEMPTION)", log):
    return {"TIME LIMIT": "out of time", "PREEMPTION": "preempted"}[found[1]]
if re.search(r"(?i)out of memory|oom[-_]kill", log):
    return "out of memory"
match record["queue"].split(", "):
    case ["PENDING", reason]:
        never = r"Partition(Config|NodeLimit|TimeLimit)|AssocMax(?!Jobs)\\w*|DependencyNeverSatisfied"
        return "never runs" if re.fullmatch(never, reason) else "nothing wrong"
world = record["asked"]["nodes"] * record["asked"]["ranks_per_node"]
if "WrongWorldSize" in [e["type"] for e in record["errors"]]:
    return "wrong world size"
if any(r["world size"] != world for r in record["returned"]):
    return "wrong world size"
ended_well = all(r["exit code"] == 0 for r in record["ranks"]) and not record["errors"]
return "nothing wrong" if ended_well else "dead rank"
""",
    "fit-serial": """
if len(seconds) < 3 or p.min() == p.max():
    raise ValueError("too little")
x = np.column_stack([1 - 1 / p, 1 / p])  # T = T(∞) (1 - 1/p) + T(1) / p
inverse = np.linalg.pinv(x)
far, one = inverse @ seconds
rest = seconds - x @ [far, one]
cov = inverse @ inverse.T * (rest @ rest) / (len(seconds) - 2)
g = np.array([1 / one, -far / one**2])
return far / one, math.sqrt(g @ cov @ g)
""",
    "limit-of": """
largest, least = s + t * error, s - t * error
high = math.inf if least <= 0 else 1 / min(1.0, least)
low = 1 / min(1.0, largest) if largest > 0 else math.inf
return low, high
""",
}
