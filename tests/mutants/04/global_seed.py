MISUNDERSTANDING = "With TensorFlow's global seed all is random, and can be repeated."
FAILS = {
    "new-numbers",
}
REPLACE = {
    "pipeline": """
tf.random.set_seed(seed)
data = tf.data.Dataset.from_tensor_slices((files, labels))
data = data.map(lambda file, label: (read(file), label), num_parallel_calls=reads)
data = data.cache().shuffle(len(files), seed=seed).batch(batch, drop_remainder=drop_last)


def changed(images, labels):
    return augment(images, tf.random.uniform((tf.shape(images)[0], 3))), labels


options = tf.data.Options()
options.threading.private_threadpool_size = reads
data = data.map(changed).prefetch(1).with_options(options)
""",
}
