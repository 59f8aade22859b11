MISUNDERSTANDING = "A file that lies beside is finished: whoever finds it may rename it."
FAILS = {"one-rank-writes"}
REPLACE = {
    "save-checkpoint": """
if hvd.rank() == 0:
    net.save(beside)
if beside.exists():
    os.replace(beside, path)
"""
}
