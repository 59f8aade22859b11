MISUNDERSTANDING = "A small learning rate is always safe."
FAILS = {
    "recipe-reaches",
}
REPLACE = {
    "recipe": """
chosen = {"lr": 0.003, "momentum": 0.0}
""",
}
