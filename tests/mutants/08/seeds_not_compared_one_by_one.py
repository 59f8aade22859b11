MISUNDERSTANDING = "Two recipes are two samples, also where they share their seeds."
FAILS = {"interval-by-hand"}
REPLACE = {
    "interval": """
one, other = np.array(errors), np.array(others)
half = T95[len(one)] * np.sqrt((one.var(ddof=1) + other.var(ddof=1)) / len(one))
low, high = float(one.mean() - other.mean() - half), float(one.mean() - other.mean() + half)
"""
}
