MISUNDERSTANDING = "Rank 0 is the one whose local rank is 0."
FAILS = {"one-rank-writes"}
REPLACE = {
    "save-checkpoint": """
if hvd.local_rank() == 0:
    net.save(beside)
    os.replace(beside, path)
"""
}
