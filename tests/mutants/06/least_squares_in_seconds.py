MISUNDERSTANDING = "All errors count in seconds."
FAILS = {"fit-small-messages"}
REPLACE = {
    "fit": """
time_per_byte, latency = np.polyfit(sizes, seconds, 1)
""",
}
