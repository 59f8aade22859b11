MISUNDERSTANDING = "A gradient costs what the network costs, two products."
FAILS = {"step-cost-by-hand", "step-cost-predicted", "prediction-sealed"}
REPLACE = {
    "step-seconds": """
d = 207 * width + 10
messages = simulate(lambda comm: allreduce(comm, np.zeros(d)), ranks=p, network=MACHINE, record=False)
return 2 * n * (196 * width + 10 * width) / FLOPS + messages.time
""",
}
