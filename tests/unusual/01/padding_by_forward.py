UNUSUAL = "The array around dy is left to the padding of forward()."
REPLACE = {
    "input_gradient": """
inner = dilation * (k - 1) - padding
rest = [(n + 2 * padding - dilation * (k - 1) - 1) % stride for n in (H, W)]
spread = np.zeros((N, stride * (H_out - 1) + 1 + rest[0], stride * (W_out - 1) + 1 + rest[1], K), dy.dtype)
spread[:, : stride * H_out : stride, : stride * W_out : stride] = dy
turned = w[::-1, ::-1].reshape(k, k, C_group, groups, -1).transpose(0, 1, 4, 3, 2).reshape(k, k, -1, C)
dx = forward(spread, turned, np.zeros(C, dy.dtype), 1, inner, dilation, groups)
""",
}
