MISUNDERSTANDING = "One shuffle is random enough for all epochs."
FAILS = {"positions-by-hand", "recipe-on-ranks", "medal-bronze", "medal-silver", "medal-gold"}
REPLACE = {
    "positions": """
return np.random.default_rng([seed, 0]).permutation(shard)[step % (shard // n) * n :][:n]
""",
}
