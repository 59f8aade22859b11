MISUNDERSTANDING = "The spread of the seeds is the uncertainty of their mean."
FAILS = {"bound-by-hand"}
REPLACE = {
    "lower-bound": """
a = np.array(accuracies, dtype=float)
return float(a.mean() - T95[len(a)] * a.std(ddof=1))
""",
}
