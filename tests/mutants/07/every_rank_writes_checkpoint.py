MISUNDERSTANDING = "The weights are equal, so it does no harm that every rank writes them."
FAILS = {"one-rank-writes"}
# Both rename the same file: whether one is too late, and its training fails, is a matter of luck.
MAY_FAIL = {"weights-equal", "recorded-run", "two-ranks-one-process"}
REPLACE = {
    "save-checkpoint": """
net.save(beside)
os.replace(beside, path)
"""
}
