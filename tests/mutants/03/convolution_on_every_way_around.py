MISUNDERSTANDING = "The way around is always a 1 × 1 convolution."
FAILS = {
    "block-identity",
    "block-order",
    "resnet-specification",
    "resnet-outputs",
}
REPLACE = {
    "residual_block": """
F = layers.ReLU()(conv(x, maps, 3, stride))
F = conv(F, maps, 3)
shortcut = conv(x, maps, 1, stride)
y = layers.ReLU()(layers.Add()([shortcut, F]))
""",
}
