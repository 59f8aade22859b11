MISUNDERSTANDING = "A classifier ends with a softmax."
FAILS = {
    "resnet-outputs",
}
REPLACE = {
    "resnet": """
x = layers.ReLU()(conv(x, f, 3))
for maps in (f, 2 * f, 4 * f):
    for _ in range(n):
        x = residual_block(x, maps, stride=1 if x.shape[-1] == maps else 2)
y = layers.Dense(10, activation='softmax')(layers.GlobalAveragePooling2D()(x))
""",
}
