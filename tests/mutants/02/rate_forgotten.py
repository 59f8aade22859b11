MISUNDERSTANDING = "The velocity is the step."
FAILS = {
    "momentum-by-hand",
    "network-learns",
}
REPLACE = {
    "update": """
velocity = {name: momentum * u + gradients[name] for name, u in velocity.items()}
parameters = {name: w - velocity[name] for name, w in parameters.items()}
""",
}
