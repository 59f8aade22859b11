MISUNDERSTANDING = "F ends with a ReLU, and then x is added."
FAILS = {
    "block-order",
    "block-changes-shape",
    "resnet-outputs",
}
REPLACE = {
    "residual_block": """
F = layers.ReLU()(conv(x, maps, 3, stride))
F = layers.ReLU()(conv(F, maps, 3))
shortcut = x if x.shape == F.shape else conv(x, maps, 1, stride)
y = layers.ReLU()(layers.Add()([shortcut, F]))
""",
}
