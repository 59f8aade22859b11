UNUSUAL = "A class of a layer holds the block, the way around is built first."
REPLACE = {
    "residual_block": """
class Residual(layers.Layer):
    def __init__(self, maps, stride, same, **options):
        super().__init__(**options)
        self.around = None if same else self.pair(1, maps, stride)
        self.second, self.first = self.pair(3, maps, 1), self.pair(3, maps, stride)

    def pair(self, k, maps, stride):
        convolution = layers.Conv2D(maps, k, stride, padding="same", use_bias=False)
        return [convolution, layers.BatchNormalization()]

    def run(self, pair, x, training):
        return pair[1](pair[0](x), training=training)

    def call(self, x, training=None):
        F = keras.ops.relu(self.run(self.first, x, training))
        F = self.run(self.second, F, training)
        return keras.ops.relu(F + (x if self.around is None else self.run(self.around, x, training)))


y = Residual(maps, stride, stride == 1 and x.shape[-1] == maps)(x)
""",
}
