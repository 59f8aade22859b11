UNUSUAL = "The gradients of the dense layer and of the loss by TensorFlow's GradientTape."
REPLACE = {
    "dense_gradient": """
import tensorflow as tf

images, weights, bias = (tf.constant(a) for a in (x, w, np.zeros(w.shape[1], w.dtype)))
with tf.GradientTape() as tape:
    tape.watch([images, weights, bias])
    y = tf.reshape(images, (len(x), -1)) @ weights + bias
    total = tf.reduce_sum(y * dy)
dx, dw, db = (g.numpy() for g in tape.gradient(total, [images, weights, bias]))
""",
    "softmax_cross_entropy": """
import tensorflow as tf

s = tf.constant(logits)
with tf.GradientTape() as tape:
    tape.watch(s)
    each = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, s)
    loss = tf.reduce_mean(each)
dlogits, loss = tape.gradient(loss, s).numpy(), loss.numpy()
""",
}
