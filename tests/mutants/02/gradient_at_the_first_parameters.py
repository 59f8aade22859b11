MISUNDERSTANDING = "The gradient is computed at the parameters that were given."
FAILS = {
    "four-steps",
    "network-learns",
}
REPLACE = {
    "train": """
start = parameters
velocity = {name: np.zeros_like(value) for name, value in parameters.items()}
losses, epoch = [], 0
while len(losses) < updates:
    for indices in batches(len(x), batch, seed, epoch)[: updates - len(losses)]:
        loss, gradients = loss_and_gradients(start, x[indices], labels[indices])
        parameters, velocity = update(parameters, velocity, gradients, lr, momentum)
        losses.append(float(loss))
    epoch += 1
""",
}
