MISUNDERSTANDING = "What is unfinished was left by a job that was stopped: each rank sweeps it away."
FAILS = {"one-rank-writes"}
MAY_FAIL = {"recorded-run"}  # where a rank sweeps the file away that the first one is about to rename
REPLACE = {
    "save-checkpoint": """
beside.unlink(missing_ok=True)
if hvd.rank() == 0:
    net.save(beside)
    os.replace(beside, path)
"""
}
