MISUNDERSTANDING = "An image is augmented before it is put into a batch."
FAILS = {
    "augment-once-a-batch",
}
REPLACE = {
    "pipeline": """
data = tf.data.Dataset.from_tensor_slices((files, labels))
data = data.map(lambda file, label: (read(file), label), num_parallel_calls=reads)
data = data.cache().shuffle(len(files), seed=seed)
generator = tf.random.Generator.from_seed(seed)


def changed(images, labels):
    return augment(images[tf.newaxis], generator.uniform((1, 3)))[0], labels


options = tf.data.Options()
options.threading.private_threadpool_size = reads
data = data.map(changed).batch(batch, drop_remainder=drop_last).prefetch(1).with_options(options)
""",
}
