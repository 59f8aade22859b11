MISUNDERSTANDING = "Only a run that takes longer is outside."
FAILS = {"score-intervals"}
REPLACE = {
    "score": """
off, off_baseline = (np.median(np.abs(np.log(guess / measured))) for guess in (middle, baseline))
skill = 1 - off / off_baseline
coverage = np.mean(measured <= high)
outside = np.maximum(0, np.log(measured / high))
interval = np.mean(np.log(high / low) + 10 * outside)
""",
}
