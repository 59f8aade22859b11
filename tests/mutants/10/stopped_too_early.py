MISUNDERSTANDING = "Half of the steps are nearly all of the accuracy, which only grows from there."
FAILS = {"target-reached", "prediction-sealed", "medal-bronze", "medal-silver", "medal-gold"}
REPLACE = {
    "recipe": """
steps, warmup = 130, 20
rates = [0.5 * min(1, (t + 1) / warmup) * min(1, 1.6 * (1 - t / steps)) for t in range(steps)]
return {"ranks": 8, "images": 32, "width": 24, "momentum": 0.9, "rates": rates}
""",
    "prediction": """
mine = recipe()
return {"accuracy": [88.0, 90.0], "milliseconds": 1e3 * len(mine["rates"]) * step_seconds(mine)}
""",
}
