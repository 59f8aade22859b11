MISUNDERSTANDING = "An epoch begins at rest."
FAILS = {
    "four-steps",
}
REPLACE = {
    "train": """
velocity = {name: np.zeros_like(value) for name, value in parameters.items()}
losses, epoch = [], 0
while len(losses) < updates:
    velocity = {name: np.zeros_like(value) for name, value in parameters.items()}
    for indices in batches(len(x), batch, seed, epoch)[: updates - len(losses)]:
        loss, gradients = loss_and_gradients(parameters, x[indices], labels[indices])
        parameters, velocity = update(parameters, velocity, gradients, lr, momentum)
        losses.append(float(loss))
    epoch += 1
""",
}
