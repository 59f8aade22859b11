UNUSUAL = "Variables are broadcast as one Python object; counts are gathered as Python's own numbers."
REPLACE = {
    "broadcast": """
values = hvd.broadcast_object([v.numpy() for v in variables], root_rank=0)
for v, value in zip(variables, values):
    v.assign(value)
""",
    "average-metric": """
every = hvd.allgather_object((int(right), int(seen)))
return sum(r for r, _ in every) / sum(s for _, s in every)
""",
}
