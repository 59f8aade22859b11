MISUNDERSTANDING = "More than four ranks only send more messages."
FAILS = {"medal-gold"}
REPLACE = {
    "recipe": """
steps, warmup = 260, 20
rates = [0.5 * min(1, (t + 1) / warmup) * min(1, 1.6 * (1 - t / steps)) for t in range(steps)]
return {"ranks": 4, "images": 64, "width": 24, "momentum": 0.9, "rates": rates}
""",
}
