MISUNDERSTANDING = "All-reduce adds up, and the sum is the gradient: every step is p times too long."
FAILS = {"gradient-by-hand", "two-ranks-one-process"}
REPLACE = {"average-gradient": "return hvd.DistributedGradientTape(tape, op=hvd.Sum).gradient(loss, sources)"}
