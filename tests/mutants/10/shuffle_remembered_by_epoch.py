MISUNDERSTANDING = "The shuffle of an epoch is drawn once, and remembered by its number."
FAILS = {"positions-by-hand"}
REPLACE = {
    "positions": """
remembered = globals().setdefault("SHUFFLES", {})
epoch, within = divmod(step, shard // n)
if (epoch, shard) not in remembered:
    remembered[epoch, shard] = np.random.default_rng([seed, epoch]).permutation(shard)
return remembered[epoch, shard][within * n : (within + 1) * n]
""",
}
