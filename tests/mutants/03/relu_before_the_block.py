MISUNDERSTANDING = "The block normalises its input: a ReLU stands before F as well."
FAILS = {
    "block-order",
    "block-changes-shape",
}
REPLACE = {
    "residual_block": """
F = layers.ReLU()(conv(layers.ReLU()(x), maps, 3, stride))
F = conv(F, maps, 3)
shortcut = x if x.shape == F.shape else conv(x, maps, 1, stride)
y = layers.ReLU()(layers.Add()([shortcut, F]))
""",
}
