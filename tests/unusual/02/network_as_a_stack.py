UNUSUAL = "The way back empties a stack that the way forward has filled."
REPLACE = {
    "loss_and_gradients": """
stack, values = [], x
convolved, connected = (convolution, convolution_gradient), (dense, dense_gradient)
for w, b, kind in [(w1, b1, convolved), (w2, b2, connected), (w3, b3, connected)]:
    stack.append((values, w, kind[1]))
    before = kind[0](values, w, b)
    stack.append(before)
    values = relu(before)
loss, dy = softmax_cross_entropy(stack.pop(), labels)
found = []
while stack:
    given, w, back = stack.pop()
    dy, dw, db = back(dy, given, w)
    found += [db, dw]
    if stack:
        dy = relu_gradient(dy, stack.pop())
gradients = dict(zip(["w1", "b1", "w2", "b2", "w3", "b3"], reversed(found)))
""",
}
