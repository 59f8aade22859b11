UNUSUAL = (
    "Global average pooling is the mean over pixels, and the classes a layer with the name of its place."
)
REPLACE = {
    "resnet": """
x = layers.Activation("relu")(conv(x, f, 3))
for stage in range(3):
    for block in range(n):
        x = residual_block(x, f * 2**stage, 2 if stage and not block else 1)
y = layers.Dense(10, name="classes")(keras.ops.mean(x, axis=(1, 2)))
""",
}
