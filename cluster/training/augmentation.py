"""The augmentation of lecture 04: random windows, mirroring and brightness, with TensorFlow's operations."""

from typing import Any

import tensorflow as tf

SIDE, OUT, EVERY = 128, 28, 4  # pixels of the file, of the network's input, and the sampling distance


def augment(images: Any, labels: Any) -> tuple[Any, Any]:
    """Crop, mirror and brighten a batch (N, SIDE, SIDE, 1) of bytes, each image randomly, or a single image.

    Returns float32 (N, OUT, OUT, 1), every fourth pixel of a window, and labels. Brightness is at most 1.2.
    """
    if images.shape.rank == 3:
        images, labels = augment(images[tf.newaxis], labels)
        return images[0], labels
    with tf.name_scope("augment"):
        n, grid = tf.shape(images)[0], EVERY * tf.range(OUT)
        top, left = tf.unstack(tf.random.uniform((2, n, 1), 0, SIDE - EVERY * OUT, tf.int32))
        across = left + tf.where(tf.random.uniform((n, 1)) < 0.5, grid[::-1], grid)
        images = tf.gather(images, top + grid, axis=1, batch_dims=1)  # (N, OUT, SIDE, 1)
        images = tf.cast(tf.gather(images, across, axis=2, batch_dims=1), tf.float32)
        return images * tf.random.uniform((n, 1, 1, 1), 0.8 / 255, 1.2 / 255), labels
