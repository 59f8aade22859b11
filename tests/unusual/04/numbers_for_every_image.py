UNUSUAL = "Each epoch draws a table of numbers for all images from a state that a variable holds."
REPLACE = {
    "pipeline": """
n = len(files)
epoch = tf.Variable(0, dtype=tf.int32, trainable=False)


def next_epoch(_):
    number = epoch.assign_add(1)
    table = tf.random.stateless_uniform((n, 3), tf.stack([seed, number]))
    order = tf.random.experimental.stateless_shuffle(tf.range(n), tf.stack([seed, -number]))
    return tf.data.Dataset.from_tensor_slices((order, table))


options = tf.data.Options()
options.threading.private_threadpool_size = reads
kept = tf.data.Dataset.from_tensor_slices((files, labels))
kept = kept.map(lambda file, label: (read(file), label), num_parallel_calls=reads).batch(n).cache()


def of_epoch(images, names):
    rows = next_epoch(0).batch(batch, drop_remainder=drop_last)
    return rows.map(lambda chosen, numbers: (tf.gather(images, chosen), tf.gather(names, chosen), numbers))


data = kept.flat_map(of_epoch).map(lambda images, names, numbers: (augment(images, numbers), names))
data = data.prefetch(1).with_options(options)
""",
}
