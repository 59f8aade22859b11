MISUNDERSTANDING = "The velocity holds learning rate times gradient."
FAILS = {
    "momentum-by-hand",
}
REPLACE = {
    "update": """
velocity = {name: momentum * u + lr * gradients[name] for name, u in velocity.items()}
parameters = {name: w - velocity[name] for name, w in parameters.items()}
""",
}
