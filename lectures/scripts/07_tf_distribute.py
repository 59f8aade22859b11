"""The same with tf.distribute: python 07_tf_distribute.py; a replica on each device"""

import keras
import tensorflow as tf
from keras import layers

from cluster.training.data import fashion_mnist

EPOCHS, BATCH, LR = 3, 32, 0.02

devices = None  # all GPUs
if not tf.config.list_physical_devices("GPU"):  # two parts of one CPU
    cpu = tf.config.list_physical_devices("CPU")[0]
    parts = [tf.config.LogicalDeviceConfiguration()] * 2
    tf.config.set_logical_device_configuration(cpu, parts)
    devices = ["CPU:0", "CPU:1"]
strategy = tf.distribute.MirroredStrategy(devices)
p = strategy.num_replicas_in_sync

with strategy.scope():  # variables become mirrored: one copy per replica, all equal
    x = image = keras.Input((28, 28, 1))
    for maps in (16, 32):
        x = layers.Conv2D(maps, 3, strides=2, use_bias=False)(x)
        x = layers.BatchNormalization(momentum=0.9, synchronized=True)(x)
        x = layers.ReLU()(x)
    net = keras.Model(image, layers.Dense(10)(layers.Flatten()(x)))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    sgd = keras.optimizers.SGD(p * LR, momentum=0.9)
    net.compile(sgd, loss, metrics=["accuracy"], jit_compile=False)

data = tf.data.Dataset.from_tensor_slices(fashion_mnist("train", 6400))
data = data.shuffle(6400, seed=7)
data = data.batch(p * BATCH, drop_remainder=True)  # the global batch
test = tf.data.Dataset.from_tensor_slices(fashion_mnist("test", 1000))
test = test.batch(p * BATCH)
save = keras.callbacks.ModelCheckpoint("checkpoint.keras")
options = {"validation_data": test, "callbacks": [save], "shuffle": False, "verbose": 2}
net.fit(data, epochs=EPOCHS, **options)
