UNUSUAL = "TensorFlow cuts the windows, NumPy does the rest; counts by sums over a list."
REPLACE = {
    "im2col": """
import tensorflow as tf

padded = np.pad(x, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
rows = (np.arange(H_out)[:, None] * stride + np.arange(k) * dilation).ravel()
cols = (np.arange(W_out)[:, None] * stride + np.arange(k) * dilation).ravel()
taken = tf.gather(tf.gather(tf.constant(padded), rows, axis=1), cols, axis=2).numpy()
windows = taken.reshape(N, H_out, k, W_out, k, C).transpose(0, 1, 3, 2, 4, 5)
columns = windows.reshape(-1, k * k * C)
""",
    "layer_flops": """
flops = sum(2 * C // groups * k * k for _ in range(K)) * N * H_out * W_out
""",
    "layer_bytes": """
sizes = [(N, H, W, C), (k, k, C // groups, K), (K,), (N, H_out, W_out, K)]
sizes += 2 * [(N, H_out, W_out, k, k, C)] if with_im2col else []
moved = int(sum(np.prod(size, dtype=np.int64) for size in sizes)) * itemsize
""",
}
