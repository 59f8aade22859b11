"""A convolutional network on p ranks: horovodrun -np 2 python 07_horovod.py"""

import os

import horovod.tensorflow as hvd
import keras
import numpy as np
import tensorflow as tf
from keras import layers

from cluster.jobs import run_folder
from cluster.training.data import fashion_mnist

EPOCHS, BATCH, LR, WARMUP = 3, 32, 0.02, 50  # of one rank; WARMUP in steps
folder = run_folder()  # of the job
checkpoint, unfinished = folder / "checkpoint.npz", folder / "unfinished.npz"

hvd.init()
rank, p = hvd.rank(), hvd.size()
if gpus := tf.config.list_physical_devices("GPU"):  # one of its node
    tf.config.set_visible_devices(gpus[hvd.local_rank() % len(gpus)], "GPU")


class RankModel(keras.Model):
    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
        short = hvd.Compression.fp16  # half of the bytes
        tape = hvd.DistributedGradientTape(tape, compression=short)
        gradients = tape.gradient(loss, [v.value for v in self.trainable_variables])
        self.optimizer.apply(gradients, self.trainable_variables)
        self.metrics[0].update_state(loss)  # its mean over the epoch is logs["loss"]
        return {"loss": self.metrics[0].result()}


class EachEpoch(keras.callbacks.Callback):
    def on_train_batch_begin(self, batch, logs=None):  # LR grows from LR to p * LR
        share = min(1.0, int(self.model.optimizer.iterations) / WARMUP)
        self.model.optimizer.learning_rate = LR * (1 + (p - 1) * share)

    def on_epoch_end(self, epoch, logs=None):  # all ranks call all collectives
        for v in self.model.non_trainable_weights:  # moving means and variances
            v.assign(hvd.allreduce(v.value, op=hvd.Average))
        x, y = (part[rank::p] for part in fashion_mnist("test", 1000))
        hits = float(np.sum(self.model(x).numpy().argmax(1) == y))
        hits, tested = hvd.allreduce(tf.constant([hits, len(y)]), op=hvd.Sum).numpy()
        loss = float(hvd.allreduce(tf.constant(logs["loss"]), op=hvd.Average))
        if rank == 0:  # and one rank prints and writes
            share = f"accuracy {hits / tested:.3f}"
            print(f"epoch {epoch}: loss {loss:.3f}, {share}", flush=True)
            values = {str(i): v.numpy() for i, v in enumerate(state(self.model))}
            np.savez(unfinished, **values, epoch=epoch)
            os.replace(unfinished, checkpoint)  # the old file or the new one


def state(net):
    """All that a training run needs to resume."""
    return net.weights + net.optimizer.variables


x = image = keras.Input((28, 28, 1))
for maps in (16, 32):
    x = layers.Conv2D(maps, 3, strides=2, use_bias=False)(x)
    x = layers.ReLU()(layers.BatchNormalization(momentum=0.9)(x))
net = RankModel(image, layers.Dense(10)(layers.Flatten()(x)))
loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
net.compile(keras.optimizers.SGD(LR, momentum=0.9), loss, jit_compile=False)
net.optimizer.build(net.trainable_variables)

first = 0
if rank == 0 and checkpoint.exists():  # one rank reads, the broadcast tells the others
    saved = np.load(checkpoint)
    first = int(saved["epoch"]) + 1
    for i, v in enumerate(state(net)):
        v.assign(saved[str(i)])
hvd.broadcast_variables([v.value for v in state(net)], root_rank=0)
first = hvd.broadcast_object(first, root_rank=0)

data = tf.data.Dataset.from_tensor_slices(fashion_mnist("train", 6400))
data = data.shuffle(6400, seed=7).shard(p, rank)  # one shuffle, a part for each rank
data = data.batch(BATCH, drop_remainder=True)  # equally many steps on all ranks
each = [EachEpoch()]  # on all ranks
options = {"epochs": EPOCHS, "initial_epoch": first, "shuffle": False, "verbose": 0}
net.fit(data, callbacks=each, **options)
