MISUNDERSTANDING = "Only the shape of the batch makes TensorFlow trace again."
FAILS = {
    "traced-once",
}
REPLACE = {
    "compile-step": """
graphs = {}


def compiled(images, labels, rate):
    if float(rate) not in graphs:
        graphs[float(rate)] = tf.function(
            lambda images, labels: step(images, labels, tf.constant(float(rate), tf.float32)),
            input_signature=[tf.TensorSpec((None, *shape), tf.float32), tf.TensorSpec((None,), tf.int64)],
        )
    return graphs[float(rate)](images, labels)
""",
}
