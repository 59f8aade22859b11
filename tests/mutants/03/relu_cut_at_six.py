MISUNDERSTANDING = "A ReLU may be cut at six, as in MobileNet: no value is larger."
FAILS = {
    "block-changes-shape",
    "resnet-outputs",
    "block-order",
}
REPLACE = {
    "residual_block": """
F = layers.ReLU(max_value=6)(conv(x, maps, 3, stride))
F = conv(F, maps, 3)
shortcut = x if x.shape == F.shape else conv(x, maps, 1, stride)
y = layers.ReLU(max_value=6)(layers.Add()([shortcut, F]))
""",
}
