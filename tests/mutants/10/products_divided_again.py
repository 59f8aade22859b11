MISUNDERSTANDING = "p ranks are p times as fast, whatever n is."
FAILS = {"step-cost-predicted", "prediction-sealed"}
REPLACE = {
    "step-seconds": """
d = 207 * width + 10
messages = simulate(lambda comm: allreduce(comm, np.zeros(d)), ranks=p, network=MACHINE, record=False)
return flops(n, width) / FLOPS / p + messages.time
""",
}
