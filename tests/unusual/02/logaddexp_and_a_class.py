UNUSUAL = "The loss by logaddexp, layers by tensordot, Python's own shuffle, a training that is an object."
REPLACE = {
    "softmax_cross_entropy": """
from functools import reduce
def log_of_sum(z: np.ndarray) -> np.ndarray:
    return reduce(np.logaddexp, np.moveaxis(z, 1, 0))
log_p = logits - log_of_sum(logits)[:, None]
loss = -np.take_along_axis(log_p, labels[:, None], 1).mean()
dlogits = np.exp(log_p)
np.subtract.at(dlogits, (range(len(labels)), labels), 1)
dlogits = dlogits / len(labels)
if dlogits.dtype != logits.dtype:
    dlogits = dlogits.astype(logits.dtype)
""",
    "dense": """
y = np.tensordot(x, w.reshape(*x.shape[1:], -1), x.ndim - 1) + b
""",
    "dense_gradient": """
axes = tuple(range(1, x.ndim))
dx = np.tensordot(dy, w.reshape(*x.shape[1:], -1), (1, len(axes)))
dw = np.tensordot(x, dy, (0, 0)).reshape(w.shape)
db = dy.T @ np.ones(len(dy), dy.dtype)
""",
    "relu": """
y = x.clip(min=0)
""",
    "relu_gradient": """
dx = dy.copy()
dx[~(x > 0)] = 0
""",
    "batches": """
import random
order = list(range(n))
random.Random(f"{seed} and {epoch}").shuffle(order)
chosen = []
while order:
    chosen, order = [*chosen, np.array(order[:batch])], order[batch:]
""",
    "update": """
from functools import partial
def blend(m, u, g):
    return m * u + g
velocity = dict(map(lambda n: (n, partial(blend, momentum)(velocity[n], gradients[n])), velocity))
parameters = {n: np.subtract(parameters[n], lr * u) for n, u in velocity.items()}
""",
    "train": """
class Training:
    def __init__(self):
        self.u, self.losses, self.epoch = {n: 0 * v for n, v in parameters.items()}, [], 0
        self.left = []

    def __call__(self, p):
        if not self.left:
            self.left = list(batches(len(x), batch, seed, self.epoch))
            self.epoch += 1
        now = self.left.pop(0)
        loss, g = loss_and_gradients(p, x[now], labels[now])
        self.losses.append(loss)
        p, self.u = update(p, self.u, g, lr, momentum)
        return p

step = Training()
for _ in range(updates):
    parameters = step(parameters)
losses = step.losses
print(losses[-3:])
""",
}
