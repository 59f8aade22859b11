MISUNDERSTANDING = "ReLU may overwrite its input, nobody needs it any more."
FAILS = {
    "relu-both-ways",
}
REPLACE = {
    "relu": """
x[x < 0] = 0
y = x
""",
}
