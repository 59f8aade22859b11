MISUNDERSTANDING = "A function of tensors is a graph."
FAILS = {
    "traced-once",
}
REPLACE = {
    "compile-step": """
def compiled(images, labels, rate):
    return step(images, labels, tf.cast(rate, tf.float32))
""",
}
