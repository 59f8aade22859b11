MISUNDERSTANDING = (
    "Saving is quick enough; what is cut short in the middle is the new checkpoint, not the old one."
)
FAILS = {"checkpoint-whole"}
REPLACE = {
    "save-checkpoint": """
if hvd.rank() == 0:
    net.save(path)
"""
}
