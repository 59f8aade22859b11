MISUNDERSTANDING = "The rule is what counts; the batch need not be the same in both recipes."
FAILS = {"recipes-matched"}
REPLACE = {
    "recipes": """
rows = [
    ("small", 1, "none", "none"),
    ("naive", 16, "none", "none"),
    ("sqrt", 16, "sqrt", "none"),
    ("linear", 8, "linear", "none"),
    ("constant", 16, "linear", "constant"),
    ("gradual", 16, "linear", "gradual"),
]
"""
}
