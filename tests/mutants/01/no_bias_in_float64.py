MISUNDERSTANDING = "A bias of zeros adds nothing, so its dtype does not matter."
FAILS = {
    "input-gradient",
}
REPLACE = {
    "input_gradient": """
margin = dilation * (k - 1)
spread = np.zeros((N, H + margin, W + margin, K), dy.dtype)
first = margin - padding
spread[:, first : first + stride * H_out : stride, first : first + stride * W_out : stride] = dy
turned = w[::-1, ::-1].reshape(k, k, C_group, groups, K // groups).transpose(0, 1, 4, 3, 2)
turned = turned.reshape(k, k, K // groups, C)
dx = forward(spread, turned, np.zeros(C), dilation=dilation, groups=groups)
""",
}
