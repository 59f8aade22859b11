MISUNDERSTANDING = "A checkpoint that is there must not be touched."
FAILS = {"checkpoint-whole"}
REPLACE = {
    "save-checkpoint": """
if hvd.rank() == 0 and not path.exists():
    net.save(beside)
    os.replace(beside, path)
"""
}
