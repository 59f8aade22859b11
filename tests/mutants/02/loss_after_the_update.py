MISUNDERSTANDING = "The loss that counts is the one after the update."
FAILS = {
    "four-steps",
}
REPLACE = {
    "train": """
velocity = {name: np.zeros_like(value) for name, value in parameters.items()}
losses, epoch = [], 0
while len(losses) < updates:
    for indices in batches(len(x), batch, seed, epoch)[: updates - len(losses)]:
        loss, gradients = loss_and_gradients(parameters, x[indices], labels[indices])
        parameters, velocity = update(parameters, velocity, gradients, lr, momentum)
        losses.append(float(loss_and_gradients(parameters, x[indices], labels[indices])[0]))
    epoch += 1
""",
}
