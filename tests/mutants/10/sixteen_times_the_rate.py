MISUNDERSTANDING = "The batch is eight times as large, so is the rate, and more is better."
FAILS = {
    "recipe-allowed",
    "target-reached",
    "prediction-sealed",
    "medal-bronze",
    "medal-silver",
    "medal-gold",
}
REPLACE = {
    "recipe": """
steps, warmup = 260, 20
rates = [10.0 * min(1, (t + 1) / warmup) * min(1, 1.6 * (1 - t / steps)) for t in range(steps)]
return {"ranks": 8, "images": 32, "width": 24, "momentum": 0.9, "rates": rates}
""",
}
