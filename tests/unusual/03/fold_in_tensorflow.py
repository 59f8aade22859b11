UNUSUAL = "TensorFlow folds, NumPy has the result."
REPLACE = {
    "fold": """
import tensorflow as tf

scale = tf.constant(gamma) * tf.math.rsqrt(tf.constant(variance) + epsilon)
folded_w = (tf.constant(w) * scale).numpy()
folded_b = (tf.constant(b - mean) * scale + beta).numpy()
""",
}
