UNUSUAL = "Rank 0 is the first rank of the first node."
REPLACE = {
    "save-checkpoint": """
if hvd.cross_rank() == 0 and hvd.local_rank() == 0:
    net.save(beside)
    os.replace(beside, path)
""",
}
