MISUNDERSTANDING = "What does not go round is left out before the shuffle: the last images are never learned."
FAILS = {"shards-make-one-batch"}
REPLACE = {"shard": "return np.random.default_rng([seed, epoch]).permutation(n // size * size)[rank::size]"}
