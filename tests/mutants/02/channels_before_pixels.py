MISUNDERSTANDING = "The numbers of an image are read channel by channel."
FAILS = {
    "network-learns",
    "dense-forward",
}
REPLACE = {
    "dense": """
y = np.moveaxis(x, -1, 1).reshape(len(x), -1) @ w + b if x.ndim == 4 else x.reshape(len(x), -1) @ w + b
""",
}
