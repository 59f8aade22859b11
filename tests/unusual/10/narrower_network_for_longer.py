UNUSUAL = "A width of 20, more steps, rates by a cosine, whole numbers among them."
REPLACE = {
    "recipe": """
import math

T = 300
rates = [0.0 + 0.25 * (1 + math.cos(math.pi * t / T)) * min(1, (t + 1) / 20) for t in range(T)]
rates[-1] = 0
return dict(rates=rates, width=20, momentum=0.9, images=32, ranks=8)
""",
    "prediction": """
mine = recipe()
middle, half = 84.9, 0.8
cost = len(mine["rates"]) * step_seconds(mine) * 1000
return {"milliseconds": cost, "accuracy": [middle - half, middle + half]}
""",
}
