MISUNDERSTANDING = "Ranks that see different parts of the data need not speak to each other."
FAILS = {
    "ranks-start-equal",
    "gradient-by-hand",
    "weights-equal",
    "two-ranks-one-process",
    "recorded-run",
}
REPLACE = {"broadcast": "pass", "average-gradient": "return tape.gradient(loss, sources)"}
