MISUNDERSTANDING = "Each image has its random numbers, drawn once."
FAILS = {
    "new-numbers",
}
REPLACE = {
    "pipeline": """
numbers = tf.random.stateless_uniform((len(files), 3), (seed, 0))
data = tf.data.Dataset.from_tensor_slices((files, labels, numbers))
data = data.map(lambda file, label, u: (read(file), label, u), num_parallel_calls=reads)
data = data.cache().shuffle(len(files), seed=seed).batch(batch, drop_remainder=drop_last)


def changed(images, labels, numbers):
    return augment(images, numbers), labels


options = tf.data.Options()
options.threading.private_threadpool_size = reads
data = data.map(changed).prefetch(1).with_options(options)
""",
}
