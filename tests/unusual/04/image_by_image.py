UNUSUAL = "The augmentation maps over the images of a batch, with tf.image and tf.cond."
REPLACE = {
    "augment": """
H, W, C = images.shape[1:]


def one(pair):
    image, u = pair
    down, right, _ = tf.unstack(tf.cast(tf.floor(u * (2.0 * s + 1.0)), tf.int32))
    framed = tf.image.pad_to_bounding_box(image, s, s, H + 2 * s, W + 2 * s)
    moved = tf.image.crop_to_bounding_box(framed, 2 * s - down, 2 * s - right, H, W)
    return tf.cond(u[2] < 0.5, lambda: tf.image.flip_left_right(moved), lambda: moved)


moved = tf.map_fn(one, (images, numbers), fn_output_signature=tf.TensorSpec((H, W, C), tf.uint8))
pictures = tf.image.convert_image_dtype(moved, tf.float32)
""",
}
