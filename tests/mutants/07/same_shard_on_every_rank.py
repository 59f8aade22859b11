MISUNDERSTANDING = "Every rank takes the first part of the shuffle: two ranks do the same work twice."
FAILS = {"shards-disjoint", "shards-cover", "shards-make-one-batch"}
REPLACE = {"shard": "return np.random.default_rng([seed, epoch]).permutation(n)[: n // size]"}
