MISUNDERSTANDING = "Images and labels can be shuffled one after the other."
FAILS = {
    "labels-stay",
}
REPLACE = {
    "pipeline": """
data = tf.data.Dataset.from_tensor_slices((files, labels))
data = data.map(lambda file, label: (read(file), label), num_parallel_calls=reads)
data = data.cache()
images = data.map(lambda image, label: image).shuffle(len(files), seed=seed)
names = data.map(lambda image, label: label).shuffle(len(files), seed=seed + 1)
data = tf.data.Dataset.zip((images, names)).batch(batch, drop_remainder=drop_last)
generator = tf.random.Generator.from_seed(seed)


def changed(images, labels):
    return augment(images, generator.uniform((tf.shape(images)[0], 3))), labels


options = tf.data.Options()
options.threading.private_threadpool_size = reads
data = data.map(changed).prefetch(1).with_options(options)
""",
}
