UNUSUAL = "Pooling over the whole map, flattened; blocks from a recursive function, with warnings on stderr."
REPLACE = {
    "resnet": """
import sys
import warnings


def stage(x, maps, left, stride):
    print("stage", maps, file=sys.stderr)
    return x if not left else stage(residual_block(x, maps, stride), maps, left - 1, 1)


warnings.warn("this may take a moment", stacklevel=1)
x = keras.activations.relu(conv(x, f, 3))
x = stage(stage(stage(x, f, n, 1), 2 * f, n, 2), 4 * f, n, 2)
y = layers.Dense(10)(layers.Flatten()(layers.AveragePooling2D(x.shape[1])(x)))
""",
}
