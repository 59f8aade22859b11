MISUNDERSTANDING = "The first convolution of the network needs no ReLU, the blocks have theirs."
FAILS = {
    "resnet-outputs",
}
REPLACE = {
    "resnet": """
x = conv(x, f, 3)
for maps in (f, 2 * f, 4 * f):
    for _ in range(n):
        x = residual_block(x, maps, stride=1 if x.shape[-1] == maps else 2)
y = layers.Dense(10)(layers.GlobalAveragePooling2D()(x))
""",
}
