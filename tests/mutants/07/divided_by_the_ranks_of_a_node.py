MISUNDERSTANDING = "The gradients of a node are averaged: local_size says how many."
FAILS = {"gradient-by-hand"}
REPLACE = {
    "average-gradient": """
added = hvd.DistributedGradientTape(tape, op=hvd.Sum).gradient(loss, sources)
return [g / hvd.local_size() for g in added]
"""
}
