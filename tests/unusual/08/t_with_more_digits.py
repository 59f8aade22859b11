UNUSUAL = "Mean and deviation come from the standard library, and t has more digits than the table."
REPLACE = {
    "interval": """
from statistics import mean, stdev

t = {2: 12.706205, 3: 4.302653, 4: 3.182446, 5: 2.776445, 6: 2.570582, 7: 2.446912, 8: 2.364624, 9: 2.306004}
d = [one - other for one, other in zip(errors, others)]
half = t[len(d)] * stdev(d) / len(d) ** 0.5
low, high = mean(d) - half, mean(d) + half
""",
}
