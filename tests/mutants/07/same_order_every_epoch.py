MISUNDERSTANDING = "One shuffle is enough: each rank learns from its own part of the data for ever."
FAILS = {"shards-reshuffled", "shards-make-one-batch"}
REPLACE = {
    "shard": """
shuffle = np.random.default_rng(seed).permutation(n)
return shuffle[: n - n % size][rank::size]
"""
}
