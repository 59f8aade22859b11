MISUNDERSTANDING = "The receptive field depends on the sizes of the filters only."
FAILS = {
    "receptive-field",
}
REPLACE = {
    "receptive_field": """
field = 1
for k, _ in chain:
    field += k - 1
""",
}
