MISUNDERSTANDING = "No network is deeper than some hundred layers."
FAILS = {
    "layers-to-see",
}
REPLACE = {
    "layers_to_see": """
chain, fields = [], []
for number in range(1, 120):
    fields.append(receptive_field(chain))
    chain.append((3, 2 if every and number % every == 0 else 1))
number_of_layers = next((n for n, field in enumerate(fields) if field >= pixels), len(fields))
""",
}
