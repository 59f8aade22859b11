MISUNDERSTANDING = (
    "What a step costs depends on the ranks and the weights, so that it is computed once for these."
)
FAILS = {"step-cost-by-hand", "step-cost-predicted"}
REPLACE = {
    "step-seconds": """
remembered, d = globals().setdefault("COSTS", {}), 207 * width + 10
if (p, width) not in remembered:
    messages = simulate(lambda comm: allreduce(comm, np.zeros(d)), ranks=p, network=MACHINE, record=False)
    remembered[p, width] = flops(n, width) / FLOPS + messages.time
return remembered[p, width]
""",
}
