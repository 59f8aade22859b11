MISUNDERSTANDING = "A recipe may be given the best of everything: the square-root rule gets a warmup, too."
FAILS = {"recipes-matched"}
REPLACE = {
    "recipes": """
rows = [
    ("small", 1, "none", "none"),
    ("naive", 16, "none", "none"),
    ("sqrt", 16, "sqrt", "gradual"),
    ("linear", 16, "linear", "none"),
    ("constant", 16, "linear", "constant"),
    ("gradual", 16, "linear", "gradual"),
]
"""
}
