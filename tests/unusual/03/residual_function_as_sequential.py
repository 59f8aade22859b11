UNUSUAL = "F is a keras.Sequential, the sum an operator."
REPLACE = {
    "residual_block": """
F = keras.Sequential(
    [
        layers.Conv2D(maps, 3, stride, padding="same", use_bias=False),
        layers.BatchNormalization(),
        layers.ReLU(),
        layers.Conv2D(maps, 3, padding="same", use_bias=False),
        layers.BatchNormalization(),
    ]
)
way = x
if stride != 1 or x.shape[-1] != maps:
    project = keras.Sequential([layers.Conv2D(maps, 1, stride, use_bias=False), layers.BatchNormalization()])
    way = project(x)
y = keras.ops.relu(way + F(x))
""",
}
