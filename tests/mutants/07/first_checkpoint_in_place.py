MISUNDERSTANDING = "The first checkpoint has no old one to lose, so that it may be written in its place."
FAILS = {"checkpoint-whole"}
REPLACE = {
    "save-checkpoint": """
if hvd.rank() == 0:
    if path.exists():
        net.save(beside)
        os.replace(beside, path)
    else:
        net.save(path)
"""
}
