MISUNDERSTANDING = "A layer's stride already widens its own window."
FAILS = {
    "receptive-field",
}
REPLACE = {
    "receptive_field": """
field, distance = 1, 1
for k, stride in chain:
    distance *= stride
    field += (k - 1) * distance
""",
}
