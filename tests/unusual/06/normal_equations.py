UNUSUAL = "Two equations for two numbers, written out."
REPLACE = {
    "fit": """
weights = seconds**-2
scaled = sizes / sizes.max()
mean = lambda values: np.average(values, weights=weights)
slope = (mean(scaled * seconds) - mean(scaled) * mean(seconds)) / (mean(scaled**2) - mean(scaled) ** 2)
latency, time_per_byte = mean(seconds) - slope * mean(scaled), slope / sizes.max()
""",
}
