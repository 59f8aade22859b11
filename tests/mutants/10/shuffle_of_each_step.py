MISUNDERSTANDING = "Each step draws its images anew from all; an epoch is only a word for the log."
FAILS = {"positions-by-hand", "recipe-on-ranks", "medal-bronze", "medal-silver", "medal-gold"}
REPLACE = {
    "positions": """
return np.random.default_rng([seed, step]).permutation(shard)[:n]
""",
}
