MISUNDERSTANDING = "Time to accuracy is a matter of steps."
FAILS = {"medal-bronze", "medal-silver", "medal-gold"}
REPLACE = {
    "recipe": """
steps, warmup = 260, 20
rates = [0.5 * min(1, (t + 1) / warmup) * min(1, 1.6 * (1 - t / steps)) for t in range(steps)]
return {"ranks": 1, "images": 256, "width": 24, "momentum": 0.9, "rates": rates}
""",
}
