MISUNDERSTANDING = "Parameters are changed where they are."
FAILS = {"momentum-by-hand", "network-learns"}
REPLACE = {
    "update": """
for name, w in parameters.items():
    velocity[name] *= momentum
    velocity[name] += gradients[name]
    w -= lr * velocity[name]
""",
}
