UNUSUAL = "Seven ranks, which divide neither the images nor the weights."
REPLACE = {
    "recipe": """
rates = list(0.5 * np.minimum(1, np.arange(1, 261) / 20) * np.minimum(1, 1.6 * (1 - np.arange(260) / 260)))
return {"ranks": 7, "images": 36, "width": 24, "momentum": 0.9, "rates": [float(rate) for rate in rates]}
""",
}
