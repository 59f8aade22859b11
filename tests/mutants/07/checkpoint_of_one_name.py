MISUNDERSTANDING = "The checkpoint is called lenet5.keras, so the name can stand in the function."
FAILS = {"one-rank-writes"}
REPLACE = {
    "save-checkpoint": """
if hvd.rank() == 0:
    net.save(beside)
    os.replace(beside, path.with_name("lenet5.keras"))
"""
}
