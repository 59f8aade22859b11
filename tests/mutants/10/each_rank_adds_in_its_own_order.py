MISUNDERSTANDING = "A sum is a sum: the order in which a rank adds up does not matter."
FAILS = {"survives-a-kill", "survives-a-torn-write"}
MAY_FAIL = {"medal-bronze", "medal-silver", "medal-gold"}
REPLACE = {
    "allreduce": """
p, r = comm.size, comm.rank
waiting = [comm.ireceive((r + i) % p) for i in range(1, p)]
sent = [comm.isend(x, (r - i) % p) for i in range(1, p)]
total = x.copy()
for request in waiting:
    total += request.wait()
for request in sent:
    request.wait()
return total
""",
}
