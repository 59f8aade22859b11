MISUNDERSTANDING = "What leaves the image at one edge comes in at the other."
FAILS = {
    "augment-by-hand",
}
REPLACE = {
    "augment": """
H, W = images.shape[1:3]
moves = tf.cast(tf.floor(numbers[:, :2] * (2 * s + 1)), tf.int32)
down = (s - moves[:, :1] + tf.range(H)) % H
across = tf.range(W)
across = tf.where(numbers[:, 2:] < 0.5, across[::-1], across)
right = (s - moves[:, 1:] + across) % W
framed = images
moved = tf.gather(tf.gather(framed, down, axis=1, batch_dims=1), right, axis=2, batch_dims=1)
pictures = tf.cast(moved, tf.float32) / 255
""",
}
