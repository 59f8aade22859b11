MISUNDERSTANDING = "The bias belongs to each product."
FAILS = {"dense-forward", "network-learns"}
REPLACE = {
    "dense": """
y = x.reshape(len(x), -1) @ w + b * len(w)
""",
}
