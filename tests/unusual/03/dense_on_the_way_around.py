UNUSUAL = "A 1 × 1 convolution is a dense layer at every stride-th pixel; F is a model of its own."
REPLACE = {
    "residual_block": """
inside = keras.Input(x.shape[1:])
F = keras.Model(inside, conv(layers.ReLU()(conv(inside, maps, 3, stride)), maps, 3))
if stride == 1 and x.shape[-1] == maps:
    around = layers.Identity()(x)
else:
    around = layers.BatchNormalization()(layers.Dense(maps, use_bias=False)(x[:, ::stride, ::stride]))
y = keras.ops.maximum(0.0, keras.ops.add(F(x), around))
""",
}
