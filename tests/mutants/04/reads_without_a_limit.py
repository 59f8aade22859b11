MISUNDERSTANDING = "The more reads at a time, the better."
FAILS = {
    "reads-at-a-time",
}
REPLACE = {
    "pipeline": """
data = tf.data.Dataset.from_tensor_slices((files, labels))
data = data.map(lambda file, label: (read(file), label), num_parallel_calls=64)
data = data.cache().shuffle(len(files), seed=seed).batch(batch, drop_remainder=drop_last)
generator = tf.random.Generator.from_seed(seed)


def changed(images, labels):
    return augment(images, generator.uniform((tf.shape(images)[0], 3))), labels


options = tf.data.Options()
options.threading.private_threadpool_size = 64
data = data.map(changed).prefetch(1).with_options(options)
""",
}
