"""Two networks for images of 28 x 28 pixels, LeNet-5 and a small ResNet, in Keras 3; and a digest of weights.

The same seed gives the same weights, on every rank and in every run. Lecture 03 builds both by hand.
"""

import hashlib
from typing import Any

import keras
import numpy as np
from keras import layers


def lenet5(seed: int = 0, classes: int = 10, activation: str = "tanh") -> keras.Model:
    """Return LeNet-5 for images (N, 28, 28, 1): logits (N, classes), 61,706 parameters with 10 classes.

    The layers are from LeCun, Bottou, Bengio and Haffner, *Gradient-based learning applied to document
    recognition*, 1998, with three simplifications that are usual today: the pooling layers have no trainable
    coefficients, the second convolution sees all six maps of the first, and the output layer is a plain
    affine map. The paper pads its images to 32 x 32; here the first convolution does.
    """
    seeds = iter(range(1000 * seed, 1000 * (seed + 1)))

    def init() -> keras.initializers.Initializer:
        return keras.initializers.GlorotUniform(seed=next(seeds))

    x = image = keras.Input((28, 28, 1))
    x = layers.Conv2D(6, 5, padding="same", activation=activation, kernel_initializer=init())(x)
    x = layers.AveragePooling2D(2)(x)  # (N, 28, 28, 6) -> (N, 14, 14, 6)
    x = layers.Conv2D(16, 5, activation=activation, kernel_initializer=init())(x)  # (N, 10, 10, 16)
    x = layers.AveragePooling2D(2)(x)  # (N, 5, 5, 16)
    x = layers.Flatten()(x)  # (N, 400)
    x = layers.Dense(120, activation=activation, kernel_initializer=init())(x)
    x = layers.Dense(84, activation=activation, kernel_initializer=init())(x)
    return keras.Model(image, layers.Dense(classes, kernel_initializer=init())(x), name="lenet5")


def small_resnet(seed: int = 0, classes: int = 10, blocks: int = 1, filters: int = 16) -> keras.Model:
    """Return a residual network of 6 * blocks + 2 layers for images (N, 28, 28, 1): logits (N, classes).

    It belongs to the family that He, Zhang, Ren and Sun, *Deep residual learning for image recognition*
    (arXiv 1512.03385, section 4.2), trained on CIFAR-10: three stages of `blocks` residual blocks with 1, 2
    and 4 times `filters` maps on 28 x 28, 14 x 14 and 7 x 7 pixels, and global average pooling. If a stage
    changes the shape, the shortcut is a 1 x 1 convolution (their option B). It has 78,426 parameters with one
    block per stage, including 672 moving statistics of batch normalisation.
    """
    seeds = iter(range(1000 * seed, 1000 * (seed + 1)))

    def conv(x: Any, maps: int, kernel: int, stride: int = 1) -> Any:
        init = keras.initializers.HeNormal(seed=next(seeds))
        return layers.Conv2D(maps, kernel, stride, padding="same", use_bias=False, kernel_initializer=init)(x)

    def block(x: Any, maps: int, stride: int) -> Any:  # (N, H, W, C) -> (N, H / stride, W / stride, maps)
        y = layers.ReLU()(layers.BatchNormalization()(conv(x, maps, 3, stride)))
        y = layers.BatchNormalization()(conv(y, maps, 3))
        if x.shape != y.shape:
            x = layers.BatchNormalization()(conv(x, maps, 1, stride))
        return layers.ReLU()(layers.Add()([x, y]))

    x = image = keras.Input((28, 28, 1))
    x = layers.ReLU()(layers.BatchNormalization()(conv(x, filters, 3)))  # (N, 28, 28, filters)
    for stage in range(3):
        for i in range(blocks):
            x = block(x, filters * 2**stage, stride=2 if stage > 0 and i == 0 else 1)
    x = layers.GlobalAveragePooling2D()(x)  # (N, 4 * filters)
    init = keras.initializers.GlorotUniform(seed=next(seeds))
    return keras.Model(image, layers.Dense(classes, kernel_initializer=init)(x), name="small_resnet")


def digest(model: keras.Model) -> str:
    """Return 64 hexadecimal digits, equal for two models if all their weights are equal to the last bit.

    They are the SHA-256 of the bytes of all weights in Keras' order, including the moving statistics of batch
    normalisation; shapes, names and the optimizer do not count.
    """
    sha = hashlib.sha256()
    for weight in model.get_weights():
        sha.update(np.ascontiguousarray(weight).tobytes())
    return sha.hexdigest()
