MISUNDERSTANDING = "Every convolution is followed by a ReLU, that of the way around, too."
FAILS = {
    "block-changes-shape",
    "resnet-outputs",
}
REPLACE = {
    "residual_block": """
F = layers.ReLU()(conv(x, maps, 3, stride))
F = conv(F, maps, 3)
shortcut = x if x.shape == F.shape else layers.ReLU()(conv(x, maps, 1, stride))
y = layers.ReLU()(layers.Add()([shortcut, F]))
""",
}
