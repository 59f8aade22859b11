MISUNDERSTANDING = "Reached is what the mean of the seeds says."
FAILS = {"bound-by-hand"}
REPLACE = {
    "lower-bound": """
return float(np.mean(accuracies))
""",
}
