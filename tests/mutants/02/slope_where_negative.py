MISUNDERSTANDING = "The slope of ReLU is 1 where x is cut off."
FAILS = {
    "network-learns",
    "relu-both-ways",
}
REPLACE = {
    "relu_gradient": """
dx = np.where(x < 0, dy, np.zeros_like(dy))
""",
}
