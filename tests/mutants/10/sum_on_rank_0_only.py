MISUNDERSTANDING = "When rank 0 has the sum, the sum is there."
FAILS = {
    "sum-on-ranks",
    "survives-a-kill",
    "survives-a-torn-write",
    "recipe-on-ranks",
    "medal-bronze",
    "medal-silver",
    "medal-gold",
}
REPLACE = {
    "allreduce": """
if comm.rank:
    comm.send(x, 0)
    return x.copy()
total = x.copy()
for other in range(1, comm.size):
    total += comm.receive(other)
return total
""",
}
