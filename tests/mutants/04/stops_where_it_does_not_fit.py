MISUNDERSTANDING = "Behind a stage whose images do not fit, nothing fits."
FAILS = {
    "cache-placed",
}
REPLACE = {
    "place-cache": """
best, place, saved = (0.0, 0), 0, 0.0
for i, (seconds, size, random) in enumerate(stages, 1):
    if random:
        break
    saved += seconds
    if n * size > memory:
        break
    if n * size <= memory and (place == 0 or (saved, -size) > best):
        best, place = (saved, -size), i
""",
}
