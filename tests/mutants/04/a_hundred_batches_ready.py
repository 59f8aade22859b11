MISUNDERSTANDING = "The more batches lie ready, the better."
FAILS = {
    "next-batch-is-made",
}
REPLACE = {
    "pipeline": """
data = tf.data.Dataset.from_tensor_slices((files, labels))
data = data.map(lambda file, label: (read(file), label), num_parallel_calls=reads)
data = data.cache().shuffle(len(files), seed=seed).batch(batch, drop_remainder=drop_last)
generator = tf.random.Generator.from_seed(seed)


def changed(images, labels):
    return augment(images, generator.uniform((tf.shape(images)[0], 3))), labels


options = tf.data.Options()
options.threading.private_threadpool_size = reads
data = data.map(changed).prefetch(100).with_options(options)
""",
}
