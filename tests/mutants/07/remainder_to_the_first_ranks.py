MISUNDERSTANDING = (
    "No image may be left out, so the first ranks get one more, and a step that the others lack."
)
FAILS = {"shards-cover", "shards-equal-length"}
REPLACE = {"shard": "return shuffle[rank::size]"}
