MISUNDERSTANDING = "A seed for each epoch is the seed plus the epoch."
FAILS = {
    "seed-decides",
}
REPLACE = {
    "pipeline": """
n = len(files)
data = tf.data.Dataset.from_tensor_slices((files, labels))
data = data.map(lambda file, label: (read(file), label), num_parallel_calls=reads).batch(n).cache()
epoch = tf.Variable(seed - 1, trainable=False, dtype=tf.int64)


def of_epoch(images, names):
    now = epoch.assign_add(1)
    order = tf.random.experimental.stateless_shuffle(tf.range(n), tf.stack([now, 0]))
    numbers = tf.random.stateless_uniform((n, 3), tf.stack([now, 1]))
    rows = tf.data.Dataset.from_tensor_slices((order, numbers)).batch(batch, drop_remainder=drop_last)
    return rows.map(lambda o, u: (tf.gather(images, o), tf.gather(names, o), u))


options = tf.data.Options()
options.threading.private_threadpool_size = reads
data = data.flat_map(of_epoch).map(lambda images, names, u: (augment(images, u), names))
data = data.prefetch(1).with_options(options)
""",
}
