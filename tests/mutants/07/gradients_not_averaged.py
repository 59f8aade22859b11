MISUNDERSTANDING = "A plain tape will do: each rank trains a network of its own."
FAILS = {"gradient-by-hand"}
REPLACE = {"average-gradient": "return tape.gradient(loss, sources)"}
