MISUNDERSTANDING = "The cost is that of a step."
FAILS = {"prediction-sealed"}
REPLACE = {
    "prediction": """
mine = recipe()
return {"accuracy": [84.2, 86.0], "milliseconds": 1e3 * step_seconds(mine)}
""",
}
