MISUNDERSTANDING = "The first worker's sum may serve as the place for the total."
FAILS = {"gradient-by-hand"}
REPLACE = {
    "batch-gradient": """
total = sums[0]
for one in sums[1:]:
    total += one
return total / seen.sum() + decay * w
"""
}
