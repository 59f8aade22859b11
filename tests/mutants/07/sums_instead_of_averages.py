MISUNDERSTANDING = "All-reduce adds up, and the sum is the gradient: every step is p times too long."
FAILS = {"gradient-by-hand"}
REPLACE = {"average-gradient": "return hvd.DistributedGradientTape(tape, op=hvd.Sum).gradient(loss, sources)"}
