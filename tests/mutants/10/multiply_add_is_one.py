MISUNDERSTANDING = "A multiply-add is one operation."
FAILS = {"step-cost-by-hand", "step-cost-predicted", "prediction-sealed"}
REPLACE = {
    "step-seconds": """
d = 207 * width + 10
messages = simulate(lambda comm: allreduce(comm, np.zeros(d)), ranks=p, network=MACHINE, record=False)
return flops(n, width) / 2 / FLOPS + messages.time
""",
}
