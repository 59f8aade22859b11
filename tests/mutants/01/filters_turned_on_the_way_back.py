MISUNDERSTANDING = (
    "The backward pass convolves with turned filters, so they are turned before col2im as well."
)
FAILS = {
    "input-gradient",
}
REPLACE = {
    "input_gradient": """
gradient_of_windows = dy.reshape(-1, K) @ w[::-1, ::-1].reshape(k * k * C, K).T
dx = col2im(gradient_of_windows, shape, k, stride, padding)
""",
}
