MISUNDERSTANDING = "The old checkpoint has to make room before the new one can be saved."
FAILS = {"checkpoint-whole"}
REPLACE = {
    "save-checkpoint": """
if hvd.rank() == 0:
    path.unlink(missing_ok=True)
    net.save(beside)
    os.replace(beside, path)
"""
}
