MISUNDERSTANDING = "np.zeros makes the velocity that is needed."
FAILS = {
    "four-steps",
}
REPLACE = {
    "train": """
velocity = {name: np.zeros(value.shape) for name, value in parameters.items()}
losses, epoch = [], 0
while len(losses) < updates:
    for indices in batches(len(x), batch, seed, epoch)[: updates - len(losses)]:
        loss, gradients = loss_and_gradients(parameters, x[indices], labels[indices])
        parameters, velocity = update(parameters, velocity, gradients, lr, momentum)
        losses.append(float(loss))
    epoch += 1
""",
}
