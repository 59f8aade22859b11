MISUNDERSTANDING = "The parameters stand in the order in which they were made."
FAILS = {
    "network-classifier",
}
REPLACE = {
    "loss_and_gradients": """
w1, w2, w3, b1, b2, b3 = parameters.values()

s1 = convolution(x, w1, b1)  # (N, H_out, W_out, K)
a1 = relu(s1)
s2 = dense(a1, w2, b2)  # (N, hidden)
a2 = relu(s2)
loss, ds3 = softmax_cross_entropy(dense(a2, w3, b3), labels)
da2, dw3, db3 = dense_gradient(ds3, a2, w3)
da1, dw2, db2 = dense_gradient(relu_gradient(da2, s2), a1, w2)
_, dw1, db1 = convolution_gradient(relu_gradient(da1, s1), x, w1)
gradients = {"w1": dw1, "b1": db1, "w2": dw2, "b2": db2, "w3": dw3, "b3": db3}
""",
}
