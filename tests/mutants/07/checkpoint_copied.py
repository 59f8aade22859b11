MISUNDERSTANDING = "Whether the finished checkpoint is renamed or copied comes to the same."
FAILS = {"checkpoint-whole"}
REPLACE = {
    "save-checkpoint": """
if hvd.rank() == 0:
    net.save(beside)
    path.write_bytes(beside.read_bytes())
    beside.unlink()
"""
}
