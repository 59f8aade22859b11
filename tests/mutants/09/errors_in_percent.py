MISUNDERSTANDING = "An error is |predicted / measured - 1|, which is less for what is too short."
FAILS = {"score-skill"}
REPLACE = {
    "score": """
off, off_baseline = (np.median(np.abs(guess / measured - 1)) for guess in (middle, baseline))
skill = 1 - off / off_baseline
coverage = np.mean((low <= measured) & (measured <= high))
outside = np.maximum(0, np.log(low / measured)) + np.maximum(0, np.log(measured / high))
interval = np.mean(np.log(high / low) + 10 * outside)
""",
}
