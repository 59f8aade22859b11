UNUSUAL = "The cache holds one element, all images; each epoch permutes it by a generator of its own."
REPLACE = {
    "pipeline": """
n = len(files)
names = tf.constant(labels)
order_of, numbers_of = (tf.random.Generator.from_seed(2 * seed + i) for i in range(2))
everything = (
    tf.data.Dataset.from_tensor_slices(files).map(read, num_parallel_calls=reads).batch(n).cache()
)


class Epoch:
    def __init__(self, images):
        self.images = images
        self.order = tf.argsort(order_of.uniform((n,)))

    def batches(self):
        last = n - n % batch if drop_last else n
        positions = tf.data.Dataset.from_tensor_slices(self.order[:last]).batch(batch)
        return positions.map(lambda chosen: (tf.gather(self.images, chosen), tf.gather(names, chosen)))


def change(images, labels):
    numbers = numbers_of.uniform(tf.stack([tf.shape(labels)[0], 3]))
    return augment(images, numbers), labels


options = tf.data.Options()
options.threading.private_threadpool_size = max(reads, 2)
data = everything.flat_map(lambda images: Epoch(images).batches()).map(change).prefetch(1)
data = data.with_options(options)
""",
}
