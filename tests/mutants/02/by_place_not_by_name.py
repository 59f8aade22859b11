MISUNDERSTANDING = "Dictionaries of the same names have them in the same order."
FAILS = {
    "momentum-by-hand",
    "network-learns",
}
REPLACE = {
    "update": """
pairs = zip(velocity.values(), gradients.values(), strict=True)
moved = [momentum * u + g for u, g in pairs]
parameters = {name: w - lr * u for (name, w), u in zip(parameters.items(), moved, strict=True)}
velocity = dict(zip(parameters, moved, strict=True))
""",
}
