MISUNDERSTANDING = "What is left over at the end of an epoch is a step, too."
FAILS = {"positions-by-hand", "recipe-on-ranks", "medal-bronze", "medal-silver", "medal-gold"}
REPLACE = {
    "positions": """
epoch, within = divmod(step, -(-shard // n))
return np.random.default_rng([seed, epoch]).permutation(shard)[within * n : (within + 1) * n]
""",
}
