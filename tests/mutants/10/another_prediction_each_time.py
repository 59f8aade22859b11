MISUNDERSTANDING = "A prediction is drawn from what one believes at the moment."
FAILS = {"prediction-sealed"}
REPLACE = {
    "prediction": """
import random
mine = recipe()
low = 84.2 + 0.1 * random.random()
return {"accuracy": [low, 86.0], "milliseconds": 1e3 * len(mine["rates"]) * step_seconds(mine)}
""",
}
