MISUNDERSTANDING = "One move for a batch is random enough."
FAILS = {
    "augment-by-hand",
    "augment-each-move",
    "augment-each-its-own",
}
REPLACE = {
    "augment": """
H, W = images.shape[1:3]
moves = tf.cast(tf.floor(tf.repeat(numbers[:1, :2], tf.shape(images)[0], axis=0) * (2 * s + 1)), tf.int32)
down = 2 * s - moves[:, :1] + tf.range(H)
across = tf.range(W)
across = tf.where(numbers[:, 2:] < 0.5, across[::-1], across)
right = 2 * s - moves[:, 1:] + across
framed = tf.pad(images, [[0, 0], [s, s], [s, s], [0, 0]])
moved = tf.gather(tf.gather(framed, down, axis=1, batch_dims=1), right, axis=2, batch_dims=1)
pictures = tf.cast(moved, tf.float32) / 255
""",
}
