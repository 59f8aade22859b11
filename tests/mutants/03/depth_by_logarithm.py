MISUNDERSTANDING = "With stride 2 in every layer the depth is a logarithm, and a float has it."
FAILS = {
    "layers-to-see",
}
REPLACE = {
    "layers_to_see": """
import math
if every == 1:
    number_of_layers = max(0, math.ceil(math.log2(pixels + 1)) - 1)
else:
    chain = []
    while receptive_field(chain) < pixels:
        number = len(chain) + 1
        chain.append((3, 2 if every and number % every == 0 else 1))
    number_of_layers = len(chain)
""",
}
