MISUNDERSTANDING = "Skill compares the means of the errors."
FAILS = {"score-skill"}
REPLACE = {
    "score": """
off, off_baseline = (np.mean(np.abs(np.log(guess / measured))) for guess in (middle, baseline))
skill = 1 - off / off_baseline
coverage = np.mean((low <= measured) & (measured <= high))
outside = np.maximum(0, np.log(low / measured)) + np.maximum(0, np.log(measured / high))
interval = np.mean(np.log(high / low) + 10 * outside)
""",
}
