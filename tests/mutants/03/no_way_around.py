MISUNDERSTANDING = "A residual block is two convolutions in a row."
FAILS = {
    "block-identity",
    "block-order",
    "block-changes-shape",
    "resnet-specification",
    "resnet-outputs",
}
REPLACE = {
    "residual_block": """
F = layers.ReLU()(conv(x, maps, 3, stride))
F = conv(F, maps, 3)
y = layers.ReLU()(F)
""",
}
