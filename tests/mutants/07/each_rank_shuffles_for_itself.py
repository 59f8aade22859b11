MISUNDERSTANDING = "Each rank draws its own shuffle and takes its part of it: the parts overlap."
FAILS = {"shards-disjoint", "shards-cover", "shards-make-one-batch"}
REPLACE = {
    "shard": """
shuffle = np.random.default_rng([seed, epoch, rank]).permutation(n)
return shuffle[: n - n % size][rank::size]
"""
}
