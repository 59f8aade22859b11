MISUNDERSTANDING = "Biases need no momentum."
FAILS = {
    "momentum-by-hand",
}
REPLACE = {
    "update": """
velocity = {name: momentum * u * (not name.startswith("b")) + gradients[name] for name, u in velocity.items()}
parameters = {name: w - lr * velocity[name] for name, w in parameters.items()}
""",
}
