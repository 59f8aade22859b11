MISUNDERSTANDING = "An interval that is wide enough is always right."
FAILS = {"prediction-sealed"}
REPLACE = {
    "prediction": """
mine = recipe()
return {"accuracy": [75.0, 95.0], "milliseconds": 1e3 * len(mine["rates"]) * step_seconds(mine)}
""",
}
