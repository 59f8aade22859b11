MISUNDERSTANDING = "ReLU cuts off what is negative, also on the way back."
FAILS = {"relu-both-ways", "network-learns"}
REPLACE = {
    "relu_gradient": """
dx = np.maximum(dy, 0) * (x > 0)
""",
}
