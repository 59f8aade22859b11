MISUNDERSTANDING = "A file can be given a name only when no other file has it."
FAILS = {"checkpoint-whole"}
REPLACE = {
    "save-checkpoint": """if hvd.rank() == 0:
    net.save(beside)
    path.unlink(missing_ok=True)
    beside.rename(path)""",
}
