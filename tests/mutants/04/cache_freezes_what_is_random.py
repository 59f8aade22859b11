MISUNDERSTANDING = "The later the cache, the more it saves."
FAILS = {
    "cache-placed",
}
REPLACE = {
    "place-cache": """
best, place, saved = (0.0, 0), 0, 0.0
for i, (seconds, size, random) in enumerate(stages, 1):
    saved += seconds
    if n * size <= memory and (place == 0 or (saved, -size) > best):
        best, place = (saved, -size), i
""",
}
