MISUNDERSTANDING = "The receptive field depends on the sizes of the filters only."
FAILS = {
    "layers-to-see",
}
REPLACE = {
    "layers_to_see": """
number_of_layers = 0
while receptive_field([(3, 1)] * number_of_layers) < pixels:
    number_of_layers += 1
""",
}
