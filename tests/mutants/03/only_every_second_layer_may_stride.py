MISUNDERSTANDING = "Strides are in every second layer or in none."
FAILS = {
    "layers-to-see",
}
REPLACE = {
    "layers_to_see": """
chain = []
while receptive_field(chain) < pixels:
    chain.append((3, 2 if every and (every == 1 or len(chain) % 2) else 1))
number_of_layers = len(chain)
""",
}
