MISUNDERSTANDING = "At 0, ReLU passes the gradient on."
FAILS = {
    "relu-both-ways",
}
REPLACE = {
    "relu_gradient": """
dx = np.where(x >= 0, dy, np.zeros_like(dy))
""",
}
