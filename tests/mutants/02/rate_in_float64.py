MISUNDERSTANDING = "The learning rate is a float64, and what it meets becomes one."
FAILS = {
    "momentum-by-hand",
}
REPLACE = {
    "update": """
velocity = {name: momentum * u + gradients[name] for name, u in velocity.items()}
parameters = {name: w - np.float64(lr) * velocity[name] for name, w in parameters.items()}
""",
}
