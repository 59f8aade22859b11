UNUSUAL = (
    "Files by interleave, numbers from NumPy, prefetch left to TensorFlow, a buffer larger than the data set."
)
REPLACE = {
    "pipeline": """
import functools

rng = np.random.default_rng([seed, 2**16])


def of_file(file, label):
    return tf.data.Dataset.from_tensors((file, label)).map(lambda f, name: (read(f), name))


def draw(count: np.ndarray) -> np.ndarray:
    return rng.random((int(count), 3), dtype=np.float32)


def change(images, names, function):
    numbers = tf.numpy_function(draw, [tf.shape(images)[0]], tf.float32)
    return function(images, tf.ensure_shape(numbers, (None, 3))), names


data = tf.data.Dataset.from_tensor_slices((files, labels))
data = data.interleave(of_file, cycle_length=reads, num_parallel_calls=reads, deterministic=True).cache()
data = data.shuffle(4 * len(files) + 1, seed=seed).batch(batch, drop_remainder=drop_last)
options = tf.data.Options()
options.threading.private_threadpool_size = 2 * reads
data = data.map(functools.partial(change, function=augment)).prefetch(tf.data.AUTOTUNE).with_options(options)
""",
}
