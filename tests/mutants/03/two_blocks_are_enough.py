MISUNDERSTANDING = "Stages have one block or two, as in the examples."
FAILS = {"resnet-specification"}
REPLACE = {
    "resnet": """
x = layers.ReLU()(conv(x, f, 3))
for maps in (f, 2 * f, 4 * f):
    for _ in range(min(n, 2)):
        x = residual_block(x, maps, stride=1 if x.shape[-1] == maps else 2)
y = layers.Dense(10)(layers.GlobalAveragePooling2D()(x))
"""
}
