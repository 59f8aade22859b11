MISUNDERSTANDING = "There are five seeds, so that t is 2.132."
FAILS = {"bound-by-hand"}
REPLACE = {
    "lower-bound": """
a = np.array(accuracies, dtype=float)
return float(a.mean() - 2.132 * a.std(ddof=1) / np.sqrt(5))
""",
}
