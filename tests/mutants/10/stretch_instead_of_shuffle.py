MISUNDERSTANDING = "Images are in no order already, so that they need not be shuffled."
FAILS = {"positions-by-hand", "recipe-on-ranks", "medal-bronze", "medal-silver", "medal-gold"}
REPLACE = {
    "positions": """
return (np.arange(n) + step * n) % shard
""",
}
