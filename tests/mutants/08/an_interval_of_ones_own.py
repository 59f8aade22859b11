MISUNDERSTANDING = "The interval is mine, whatever is given."
FAILS = {"conclusions-measured"}
REPLACE = {
    "conclusions": """
answers = {"H": "not shown", "I": "not shown"}
for claim, lower, higher in [
    ("A", "small", "naive"),
    ("B", "sqrt", "naive"),
    ("C", "linear", "naive"),
    ("D", "constant", "linear"),
    ("E", "gradual", "constant"),
    ("F", "gradual", "sqrt"),
    ("G", "small", "gradual"),
]:
    d = np.subtract(errors[lower], errors[higher])
    half = T95.get(len(d), 0) * d.std(ddof=min(1, len(d) - 1)) / np.sqrt(len(d))
    low, high = d.mean() - half, d.mean() + half
    answers[claim] = "supported" if high < 0 else "contradicted" if low > 0 else "undecided"
return answers
""",
}
