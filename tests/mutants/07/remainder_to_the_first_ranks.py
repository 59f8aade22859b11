MISUNDERSTANDING = (
    "No image may be left out, so the first ranks get one more, and a step that the others lack."
)
FAILS = {"shards-equal-length"}
REPLACE = {"shard": "return np.random.default_rng([seed, epoch]).permutation(n)[rank::size]"}
