MISUNDERSTANDING = "Only a stride changes the shape; more maps need no convolution on the way around."
FAILS = {
    "block-changes-shape",
}
REPLACE = {
    "residual_block": """
F = layers.ReLU()(conv(x, maps, 3, stride))
F = conv(F, maps, 3)
shortcut = x if stride == 1 else conv(x, maps, 1, stride)
y = layers.ReLU()(layers.Add()([shortcut, F]))
""",
}
