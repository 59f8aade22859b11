UNUSUAL = "A number says that the checkpoint is there; it was written under a name of the process's own."
REPLACE = {
    "save-checkpoint": """
done = 0
if hvd.rank() == 0:
    mine = path.parent / f"{os.getpid()}-{path.stem}.new.keras"
    net.save(str(mine))
    with open(mine, "rb") as file:
        os.fsync(file.fileno())
    mine.replace(path.absolute())
    done = 1
hvd.broadcast(tf.constant(done), root_rank=0, name="checkpoint")
""",
    "average-metric": """
def total(number, what):
    return int(hvd.allreduce(tf.constant(number, tf.int64), op=hvd.Sum, name=f"count of {what}"))


return total(right, "right") / total(seen, "seen")
""",
    "average-gradient": """
averaged = hvd.grouped_allreduce(tape.gradient(loss, sources), op=hvd.Average)
return list(averaged)
""",
}
