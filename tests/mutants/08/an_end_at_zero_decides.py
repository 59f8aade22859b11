MISUNDERSTANDING = "An interval that ends at 0 leaves it out."
FAILS = {"conclusions-measured"}
REPLACE = {
    "conclusions": """
answers = {"H": "not shown", "I": "not shown"}
pairs = ["small naive", "sqrt naive", "linear naive", "constant linear", "gradual constant", "gradual sqrt"]
for claim, pair in zip("ABCDEFG", [*pairs, "small gradual"], strict=True):
    lower, higher = pair.split()
    low, high = interval(errors[lower], errors[higher])
    answers[claim] = "supported" if high <= 0 else "contradicted" if low >= 0 else "undecided"
return answers
"""
}
