MISUNDERSTANDING = "A stride also acts on the layer that has it."
FAILS = {
    "layers-to-see",
}
REPLACE = {
    "layers_to_see": """
field, distance, number_of_layers = 1, 1, 0
while field < pixels:
    number_of_layers += 1
    if every and number_of_layers % every == 0:
        distance *= 2
    field += 2 * distance
""",
}
