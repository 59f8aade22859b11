MISUNDERSTANDING = "What the best of my runs had is what others will have."
FAILS = {"prediction-sealed"}
REPLACE = {
    "prediction": """
mine = recipe()
return {"accuracy": [86.0, 87.0], "milliseconds": 1e3 * len(mine["rates"]) * step_seconds(mine)}
""",
}
