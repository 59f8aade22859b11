MISUNDERSTANDING = "Only more maps change the shape; a stride needs no convolution on the way around."
FAILS = {
    "block-changes-shape",
}
REPLACE = {
    "residual_block": """
F = layers.ReLU()(conv(x, maps, 3, stride))
F = conv(F, maps, 3)
shortcut = x if x.shape[-1] == maps else conv(x, maps, 1, stride)
y = layers.ReLU()(layers.Add()([shortcut, F]))
""",
}
