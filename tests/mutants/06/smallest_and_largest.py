MISUNDERSTANDING = "α is the time of the smallest message, β that of the largest by its bytes."
FAILS = {"fit-exact", "fit-small-messages"}
REPLACE = {
    "fit": """
small, large = np.argmin(sizes), np.argmax(sizes)
latency, time_per_byte = seconds[small], seconds[large] / sizes[large]
""",
}
