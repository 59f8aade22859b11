MISUNDERSTANDING = "The mean of m seeds is as uncertain as one of them."
FAILS = {"interval-by-hand"}
REPLACE = {
    "interval": """
d = np.array(errors) - np.array(others)
half = T95[len(d)] * d.std(ddof=1)
low, high = float(d.mean() - half), float(d.mean() + half)
"""
}
