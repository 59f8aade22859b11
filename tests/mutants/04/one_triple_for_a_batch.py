MISUNDERSTANDING = "A batch is augmented alike; the next one otherwise."
FAILS = {
    "new-numbers",
}
REPLACE = {
    "pipeline": """
data = tf.data.Dataset.from_tensor_slices((files, labels))
data = data.map(lambda file, label: (read(file), label), num_parallel_calls=reads)
data = data.cache().shuffle(len(files), seed=seed).batch(batch, drop_remainder=drop_last)
generator = tf.random.Generator.from_seed(seed)


def changed(images, labels):
    return augment(images, tf.repeat(generator.uniform((1, 3)), tf.shape(images)[0], axis=0)), labels


options = tf.data.Options()
options.threading.private_threadpool_size = reads
data = data.map(changed).prefetch(1).with_options(options)
""",
}
