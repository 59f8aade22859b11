"""Train a small residual network on the images of k ranks per update: python train.py K SEED

One process stands in for k ranks of n = 32 images each. The gradient is the mean over all kn images, which is
what an all-reduce with averaging gives, and batch normalisation takes its statistics from each rank's own n.
The lines that end in `# <-` are those that the variants of ../08_large_batches.py change, one at a time.
"""

import json
import sys

import keras
import numpy as np
import tensorflow as tf
from keras import layers, ops

from cluster.jobs import log
from cluster.training.data import fashion_mnist

n, N, EPOCHS = 32, 12_288, 10  # images per rank and update, training images, epochs
k, seed = int(sys.argv[1]), int(sys.argv[2])
S = N // (k * n)  # updates per epoch
T, W = EPOCHS * S, 3 * S  # updates in total, and in the warmup of 3 epochs
# The learning rate of one rank, and the scale at which a residual block's last batch normalisation starts.
B = 0.1  # <-
GAMMA = 1.0  # <-


def rate(t):
    """Return the learning rate of update t = 0, 1, ... before its decay."""
    return B  # <-


def direction(w, g):
    """Return the contribution of a variable w's gradient g to its velocity."""
    return g  # <-


class RankBatchNorm(layers.Layer):
    """Batch normalisation of (k * n, H, W, C) in k groups of n; the moving statistics are those of rank 0."""

    def __init__(self, gamma=1.0):
        super().__init__()
        self.start = keras.initializers.Constant(gamma)

    def build(self, shape):
        c = shape[-1:]
        self.gamma, self.beta = self.add_weight(c, self.start), self.add_weight(c, "zeros")
        self.mean = self.add_weight(c, "zeros", trainable=False)
        self.variance = self.add_weight(c, "ones", trainable=False)

    def call(self, x, training=False):
        mean, variance = self.mean, self.variance
        if training:
            groups = ops.reshape(x, (-1, n, *x.shape[1:]))
            mean, variance = ops.moments(groups, (1, 2, 3))  # (k, C)
            self.mean.assign(0.9 * self.mean + 0.1 * mean[0])
            self.variance.assign(0.9 * self.variance + 0.1 * variance[0])
            mean, variance = (ops.repeat(s, n, 0)[:, None, None] for s in (mean, variance))
        return (x - mean) * ops.rsqrt(variance + 1e-3) * self.gamma + self.beta


def network():
    """Return a network of eight layers, with three residual blocks: (N, 14, 14, 1) -> logits (N, 10)."""
    seeds = iter(range(1000 * seed, 1000 * seed + 1000))

    def conv(x, maps, kernel=3, stride=1):
        init = keras.initializers.HeNormal(seed=next(seeds))
        return layers.Conv2D(maps, kernel, stride, padding="same", use_bias=False, kernel_initializer=init)(x)

    x = image = keras.Input((14, 14, 1))
    x = layers.ReLU()(RankBatchNorm()(conv(x, 8)))
    for maps in (8, 16, 32):
        stride = 1 if maps == 8 else 2
        y = layers.ReLU()(RankBatchNorm()(conv(x, maps, 3, stride)))
        y = RankBatchNorm(GAMMA)(conv(y, maps))
        x = layers.ReLU()(y + (x if stride == 1 else RankBatchNorm()(conv(x, maps, 1, stride))))
    x = layers.GlobalAveragePooling2D()(x)
    init = keras.initializers.GlorotUniform(seed=next(seeds))
    return keras.Model(image, layers.Dense(10, kernel_initializer=init)(x))


def images(split, limit=None):
    """Return images (N, 14, 14, 1), averaged over 2 x 2 pixels, and labels (N,)."""
    x, y = fashion_mnist(split, limit)
    return x.reshape(-1, 14, 2, 14, 2, 1).mean((2, 4)), y


def main():
    """Train; return the loss of each update, the test error in % after each epoch, and the weights."""
    (x, y), (x_test, y_test) = images("train", N), images("test")
    model = network()
    weights = model.trainable_variables
    velocities = [tf.Variable(tf.zeros(w.shape)) for w in weights]
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

    @tf.function
    def update(x, y, eta, momentum):
        with tf.GradientTape() as tape:
            loss = loss_of(y, model(x, training=True))  # the mean over all kn images
        gradients = tape.gradient(loss, [w.value for w in weights])
        for w, v, g in zip(weights, velocities, gradients, strict=True):
            v.assign(momentum * v + eta * direction(w.value, g))
            w.assign_sub(v)
        return loss

    @tf.function
    def logits(x):
        return model(x, training=False)

    def error(x, y):
        found = np.concatenate([logits(x[i : i + 1000]).numpy() for i in range(0, len(x), 1000)])
        right = (found.argmax(1) == y) & np.isfinite(found).all(1)  # NaN counts as an error, not as class 0
        return 100 * (1 - float(right.mean()))

    rng = np.random.default_rng(seed)
    losses, errors, last = [], [], rate(0)
    for epoch in range(EPOCHS):
        # One shuffle for all ranks; each update takes the next kn images of it.
        order = rng.permutation(N)  # <-
        for i in range(S):
            t = epoch * S + i
            eta = rate(t) * (1 if t < 0.8 * T else 0.1)
            # The velocity is a sum of gradients times earlier rates, so correct it when the rate changes.
            momentum = 0.9 * eta / last  # <-
            take = order[i * k * n : (i + 1) * k * n]
            arguments = x[take], y[take], tf.constant(eta, tf.float32), tf.constant(momentum, tf.float32)
            losses.append(float(update(*arguments)))
            last = eta
        small = 10_000 if epoch + 1 == EPOCHS else 2_000  # number of test images: all after the last epoch
        errors.append(error(x_test[:small], y_test[:small]))
        log(step=epoch + 1, steps=EPOCHS, test_error=errors[-1], loss=float(np.mean(losses[-S:])))
    return losses, errors, model.get_weights()


if __name__ == "__main__":
    print(json.dumps(main()[1]))
