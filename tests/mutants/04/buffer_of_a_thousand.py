MISUNDERSTANDING = "A buffer of a thousand images shuffles any data set."
FAILS = {
    "new-order",
}
REPLACE = {
    "pipeline": """
data = tf.data.Dataset.from_tensor_slices((files, labels))
data = data.map(lambda file, label: (read(file), label), num_parallel_calls=reads)
data = data.cache().shuffle(1000, seed=seed).batch(batch, drop_remainder=drop_last)
generator = tf.random.Generator.from_seed(seed)


def changed(images, labels):
    return augment(images, generator.uniform((tf.shape(images)[0], 3))), labels


options = tf.data.Options()
options.threading.private_threadpool_size = reads
data = data.map(changed).prefetch(1).with_options(options)
""",
}
