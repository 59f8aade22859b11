MISUNDERSTANDING = (
    "seed + epoch is as good as [seed, epoch], but seed 1 then begins with the second epoch of seed 0."
)
FAILS = {"shards-make-one-batch"}
REPLACE = {
    "shard": """
shuffle = np.random.default_rng(seed + epoch).permutation(n)
return shuffle[: n - n % size][rank::size]
"""
}
