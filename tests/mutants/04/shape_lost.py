MISUNDERSTANDING = "A function of NumPy in the graph needs no shape."
FAILS = {
    "augment-numbers",
}
REPLACE = {
    "augment": """
def in_numpy(images, numbers):
    pictures = np.zeros(images.shape, np.float32)
    for i, (image, u) in enumerate(zip(images, numbers)):
        down, right = (int(np.floor(v * (2 * s + 1))) for v in u[:2])
        framed = np.pad(image, [(s, s), (s, s), (0, 0)])
        moved = np.roll(framed, (down - s, right - s), (0, 1))[s : s + image.shape[0], s : s + image.shape[1]]
        pictures[i] = (moved[:, ::-1] if u[2] < 0.5 else moved) / np.float32(255)
    return pictures


pictures = tf.numpy_function(in_numpy, [images, numbers], tf.float32)
""",
}
