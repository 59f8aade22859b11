MISUNDERSTANDING = "The last block of a stage halves the pixels, not the first of the next."
FAILS = {
    "resnet-specification",
    "resnet-outputs",
}
REPLACE = {
    "resnet": """
x = layers.ReLU()(conv(x, f, 3))
for maps in (f, 2 * f, 4 * f):
    for i in range(n):
        x = residual_block(x, maps, stride=2 if maps < 4 * f and i == n - 1 else 1)
y = layers.Dense(10)(layers.GlobalAveragePooling2D()(x))
""",
}
