MISUNDERSTANDING = "It does not matter which of the two convolutions has the stride."
FAILS = {
    "block-changes-shape",
    "resnet-outputs",
}
REPLACE = {
    "residual_block": """
F = layers.ReLU()(conv(x, maps, 3))
F = conv(F, maps, 3, stride)
shortcut = x if x.shape == F.shape else conv(x, maps, 1, stride)
y = layers.ReLU()(layers.Add()([shortcut, F]))
""",
}
