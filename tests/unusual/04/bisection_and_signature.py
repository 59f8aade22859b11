UNUSUAL = "Batches by trying out, parts by divisors, a step as a class with a concrete function; it warns."
REPLACE = {
    "largest-batch": """
low, high = 0, 1
while step_bytes(rows, high * multiple, **how) <= memory:
    low, high = high, 2 * high
while high - low > 1:
    middle = (low + high) // 2
    if step_bytes(rows, middle * multiple, **how) <= memory:
        low = middle
    else:
        high = middle
batch = low * multiple
""",
    "parts": """
sizes = [size for size in range(batch, 0, -1) if batch % size == 0]
fitting = (size for size in sizes if step_bytes(rows, size, **how) <= memory)
largest = next(fitting, None)
if largest is None:
    raise ValueError(f"no part of {batch} images fits")
parts = batch // largest
""",
    "compile-step": """
import warnings


class Compiled:
    def __init__(self):
        signature = [tf.TensorSpec([None, *shape]), tf.TensorSpec([None], tf.int64), tf.TensorSpec([])]
        self.graph = tf.function(step).get_concrete_function(*signature)

    def __call__(self, images, labels, rate):
        return self.graph(tf.identity(images), tf.identity(labels), tf.constant(float(rate)))


warnings.warn("traced when it is made", stacklevel=1)
compiled = Compiled()
""",
}
