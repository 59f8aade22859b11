MISUNDERSTANDING = (
    "Each rank takes one stretch of the shuffle: disjoint and covering, but no step is one process' step."
)
FAILS = {"shards-make-one-batch"}
REPLACE = {
    "shard": """
shuffle = np.random.default_rng([seed, epoch]).permutation(n)
m = n // size
return shuffle[rank * m : (rank + 1) * m]
"""
}
