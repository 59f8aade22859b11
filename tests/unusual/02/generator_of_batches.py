UNUSUAL = "The order by sorting random numbers, cut by array_split; a training that is one loop over updates."
REPLACE = {
    "batches": """
order = np.argsort(np.random.Generator(np.random.PCG64((seed, epoch, 17))).random(n))
chosen = np.split(order, np.arange(batch, n, batch))
""",
    "train": """
import itertools

steps = ((epoch, i) for epoch in itertools.count() for i in range(-(-len(x) // batch)))
velocity, losses, lists = {name: value * 0 for name, value in parameters.items()}, [], {}
for _, (epoch, i) in zip(range(updates), steps):
    if epoch not in lists:
        lists = {epoch: batches(len(x), batch, seed, epoch)}
    chosen = lists[epoch][i]
    loss, gradients = loss_and_gradients(parameters, np.take(x, chosen, axis=0), np.take(labels, chosen))
    parameters, velocity = update(parameters, velocity, gradients, lr, momentum)
    losses += [loss]
""",
    "recipe": """
chosen = dict(lr=0.2, momentum=0)
""",
}
