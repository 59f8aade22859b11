MISUNDERSTANDING = "Half of the steps are most of the accuracy, and the rest is luck."
FAILS = {"target-reached", "medal-bronze", "medal-silver", "medal-gold"}
REPLACE = {
    "recipe": """
steps, warmup = 130, 20
rates = [0.5 * min(1, (t + 1) / warmup) * min(1, 1.6 * (1 - t / steps)) for t in range(steps)]
return {"ranks": 8, "images": 32, "width": 24, "momentum": 0.9, "rates": rates}
""",
    "prediction": """
mine = recipe()
return {"accuracy": [82.2, 84.2], "milliseconds": 1e3 * len(mine["rates"]) * step_seconds(mine)}
""",
}
