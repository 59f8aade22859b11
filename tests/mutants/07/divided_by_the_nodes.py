MISUNDERSTANDING = "The sum of the gradients is divided by the number of nodes."
FAILS = {"gradient-by-hand", "two-ranks-one-process"}
REPLACE = {
    "average-gradient": """
tape = hvd.DistributedGradientTape(tape, op=hvd.Sum)
return [g / hvd.cross_size() for g in tape.gradient(loss, sources)]
"""
}
