MISUNDERSTANDING = "The allocation is advice."
FAILS = {
    "recipe-allowed",
    "target-reached",
    "prediction-sealed",
    "recipe-on-ranks",
    "medal-bronze",
    "medal-silver",
    "medal-gold",
}
REPLACE = {
    "recipe": """
steps, warmup = 260, 20
rates = [0.5 * min(1, (t + 1) / warmup) * min(1, 1.6 * (1 - t / steps)) for t in range(steps)]
return {"ranks": 8, "images": 32, "width": 96, "momentum": 0.9, "rates": rates}
""",
}
