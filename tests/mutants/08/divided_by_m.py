MISUNDERSTANDING = "The variance of m numbers is divided by m, also where their mean was estimated."
FAILS = {"interval-by-hand"}
REPLACE = {
    "interval": """
d = np.array(errors) - np.array(others)
half = T95[len(d)] * d.std() / np.sqrt(len(d))
low, high = float(d.mean() - half), float(d.mean() + half)
"""
}
