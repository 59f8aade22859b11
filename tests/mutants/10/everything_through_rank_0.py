MISUNDERSTANDING = "It does not matter which way the messages take, if the sum is right."
FAILS = {"medal-bronze", "medal-silver", "medal-gold"}
REPLACE = {
    "allreduce": """
if comm.rank:
    comm.send(x, 0)
    return comm.receive(0)
total = x.copy()
for other in range(1, comm.size):
    total += comm.receive(other)
for other in range(1, comm.size):
    comm.send(total, other)
return total
""",
}
