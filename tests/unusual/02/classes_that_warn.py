UNUSUAL = "Layers and optimizer are classes; they warn."
REPLACE = {
    "loss_and_gradients": """
import warnings


class Layer:
    def __init__(self, forwards, backwards, *names):
        self.forwards, self.backwards, self.names = forwards, backwards, names

    def forward(self, x):
        self.x = x
        return self.forwards(x, *(parameters[name] for name in self.names))

    def backward(self, dy):
        if not self.names:
            return self.backwards(dy, self.x)
        dx, *found = self.backwards(dy, self.x, parameters[self.names[0]])
        gradients.update(zip(self.names, found))
        return dx


warnings.warn("a class for each layer", stacklevel=1)
gradients, values = {}, x
layers = [
    Layer(convolution, convolution_gradient, "w1", "b1"),
    Layer(relu, relu_gradient),
    Layer(dense, dense_gradient, "w2", "b2"),
    Layer(relu, relu_gradient),
    Layer(dense, dense_gradient, "w3", "b3"),
]
for layer in layers:
    values = layer.forward(values)
loss, dy = softmax_cross_entropy(values, labels)
for layer in reversed(layers):
    dy = layer.backward(dy)
""",
    "update": """
class Momentum:
    def __init__(self, held):
        self.held = held

    def step(self, name):
        u = np.multiply(self.held[name], momentum) + gradients[name]
        return parameters[name] - np.multiply(u, lr), u


optimizer = Momentum(velocity)
pairs = [(name, optimizer.step(name)) for name in sorted(parameters, reverse=True)]
parameters = {name: w for name, (w, _) in pairs}
velocity = {name: u for name, (_, u) in pairs}
""",
}
