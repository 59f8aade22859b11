MISUNDERSTANDING = "A block may drop some of its outputs, which a count does not show."
FAILS = {
    "block-changes-shape",
    "resnet-outputs",
}
REPLACE = {
    "residual_block": """
F = layers.ReLU()(conv(x, maps, 3, stride))
F = conv(layers.Dropout(0.5, seed=1)(F), maps, 3)
shortcut = x if x.shape == F.shape else conv(x, maps, 1, stride)
y = layers.ReLU()(layers.Add()([shortcut, F]))
""",
}
