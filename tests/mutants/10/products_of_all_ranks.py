MISUNDERSTANDING = "The work of all ranks together is what a step costs."
FAILS = {"step-cost-predicted", "prediction-sealed"}
REPLACE = {
    "step-seconds": """
d = 207 * width + 10
messages = simulate(lambda comm: allreduce(comm, np.zeros(d)), ranks=p, network=MACHINE, record=False)
return flops(p * n, width) / FLOPS + messages.time
""",
}
