MISUNDERSTANDING = "Each stage begins with stride 2, also the first."
FAILS = {
    "resnet-specification",
    "resnet-outputs",
}
REPLACE = {
    "resnet": """
x = layers.ReLU()(conv(x, f, 3))
for maps in (f, 2 * f, 4 * f):
    for i in range(n):
        x = residual_block(x, maps, stride=2 if i == 0 else 1)
y = layers.Dense(10)(layers.GlobalAveragePooling2D()(x))
""",
}
