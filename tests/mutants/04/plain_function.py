MISUNDERSTANDING = "tf.function traces once, whatever it is given."
FAILS = {
    "traced-once",
}
REPLACE = {
    "compile-step": """
graph = tf.function(step)


def compiled(images, labels, rate):
    return graph(images, labels, float(rate) if isinstance(rate, np.floating) else rate)
""",
}
