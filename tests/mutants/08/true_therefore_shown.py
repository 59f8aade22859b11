MISUNDERSTANDING = "What is known to be true is supported by any run that fits."
FAILS = {"conclusions-beyond"}
REPLACE = {
    "conclusions": """
answers = {"H": "supported", "I": "supported"}
pairs = ["small naive", "sqrt naive", "linear naive", "constant linear", "gradual constant", "gradual sqrt"]
for claim, pair in zip("ABCDEFG", [*pairs, "small gradual"], strict=True):
    lower, higher = pair.split()
    low, high = interval(errors[lower], errors[higher])
    answers[claim] = "supported" if high < 0 else "contradicted" if low > 0 else "undecided"
return answers
"""
}
