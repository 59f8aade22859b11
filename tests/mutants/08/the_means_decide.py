MISUNDERSTANDING = "Whichever mean is lower is better."
FAILS = {"conclusions-measured"}
REPLACE = {
    "conclusions": """
pairs = ["small naive", "sqrt naive", "linear naive", "constant linear", "gradual constant", "gradual sqrt"]
for claim, pair in zip("ABCDEFG", [*pairs, "small gradual"], strict=True):
    lower, higher = pair.split()
    low, high = interval(errors[lower], errors[higher])
    conclusions[claim] = "supported" if low + high < 0 else "contradicted"
conclusions["H"] = conclusions["I"] = "not shown"
"""
}
