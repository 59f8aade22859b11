MISUNDERSTANDING = "One ReLU at the end of the block is enough."
FAILS = {
    "block-order",
    "block-changes-shape",
    "resnet-outputs",
}
REPLACE = {
    "residual_block": """
F = conv(x, maps, 3, stride)
F = conv(F, maps, 3)
shortcut = x if x.shape == F.shape else conv(x, maps, 1, stride)
y = layers.ReLU()(layers.Add()([shortcut, F]))
""",
}
