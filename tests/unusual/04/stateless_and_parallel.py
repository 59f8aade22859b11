UNUSUAL = "Numbers from seeds that a data set of random numbers gives, TensorFlow's own numbers of threads."
REPLACE = {
    "pipeline": """
import warnings

warnings.warn("seeds come from a data set of their own", stacklevel=1)
n = len(files)
images = tf.data.Dataset.from_tensor_slices(files).map(read, num_parallel_calls=reads)
kept = tf.data.Dataset.zip((images, tf.data.Dataset.from_tensor_slices(labels))).cache()
mixed = kept.shuffle(10 * n, seed=seed + 1, reshuffle_each_iteration=True)
seeds = tf.data.Dataset.random(seed=seed, rerandomize_each_iteration=True).batch(2)
data = tf.data.Dataset.zip((mixed.batch(batch, drop_remainder=bool(drop_last)), seeds))


def change(pair, two):
    numbers = tf.random.stateless_uniform([tf.size(pair[1]), 3], two)
    return augment(pair[0], numbers), pair[1]


data = data.map(change, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True).prefetch(tf.data.AUTOTUNE)
threads = tf.data.Options()
threads.threading.private_threadpool_size = 40
data = data.with_options(threads)
""",
}
