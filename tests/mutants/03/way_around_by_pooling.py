MISUNDERSTANDING = "Pixels are dropped by pooling; the 1 × 1 convolution on the way around needs no stride."
FAILS = {
    "block-changes-shape",
    "resnet-outputs",
}
REPLACE = {
    "residual_block": """
F = layers.ReLU()(conv(x, maps, 3, stride))
F = conv(F, maps, 3)
shortcut = x if x.shape == F.shape else conv(layers.AveragePooling2D(stride)(x), maps, 1)
y = layers.ReLU()(layers.Add()([shortcut, F]))
""",
}
