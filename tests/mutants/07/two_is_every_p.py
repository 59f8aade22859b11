MISUNDERSTANDING = "The ranks are two, so the mean is half of the sum."
FAILS = {"gradient-by-hand"}
REPLACE = {
    "average-gradient": """
added = hvd.DistributedGradientTape(tape, op=hvd.Sum).gradient(loss, sources)
return [g / 2 for g in added]
"""
}
