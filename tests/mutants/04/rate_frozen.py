MISUNDERSTANDING = "What the step is traced with once is the rate."
FAILS = {
    "traced-right",
}
REPLACE = {
    "compile-step": """
held = []


@tf.function(input_signature=[tf.TensorSpec((None, *shape), tf.float32), tf.TensorSpec((None,), tf.int64)])
def graph(images, labels):
    return step(images, labels, tf.constant(held[0], tf.float32))


def compiled(images, labels, rate):
    held.append(float(rate))
    return graph(images, labels)
""",
}
