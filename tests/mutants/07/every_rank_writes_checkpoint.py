MISUNDERSTANDING = "The weights are equal, so it does no harm that every rank writes them."
FAILS = {"one-rank-writes"}
REPLACE = {
    "save-checkpoint": """
net.save(beside)
os.replace(beside, path)
"""
}
