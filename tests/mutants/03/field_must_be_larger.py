MISUNDERSTANDING = "The field must be larger than what is to be seen; as large is not enough."
FAILS = {
    "layers-to-see",
}
REPLACE = {
    "layers_to_see": """
chain = []
while receptive_field(chain) <= pixels:
    number = len(chain) + 1
    chain.append((3, 2 if every and number % every == 0 else 1))
number_of_layers = len(chain)
""",
}
