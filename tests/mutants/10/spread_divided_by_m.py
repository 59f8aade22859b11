MISUNDERSTANDING = "The mean square deviation divides by m."
FAILS = {"bound-by-hand"}
REPLACE = {
    "lower-bound": """
a = np.array(accuracies, dtype=float)
return float(a.mean() - T95[len(a)] * a.std() / np.sqrt(len(a)))
""",
}
