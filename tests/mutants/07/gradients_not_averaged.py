MISUNDERSTANDING = "A plain tape will do: each rank trains a network of its own."
FAILS = {"gradient-by-hand", "weights-equal", "two-ranks-one-process"}
REPLACE = {"average-gradient": "return tape.gradient(loss, sources)"}
