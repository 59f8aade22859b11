MISUNDERSTANDING = "Rank 0 is the first node: every rank of it writes."
FAILS = {"one-rank-writes"}
MAY_FAIL = {"recorded-run"}  # where two ranks of the node write into one file, or one renames the other's
REPLACE = {
    "save-checkpoint": """
if hvd.cross_rank() == 0:
    net.save(beside)
    os.replace(beside, path)
"""
}
