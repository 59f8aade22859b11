"""Code for the ranks: the data, the models, the learning rate, momentum and the data-parallel step.

Importing this package is cheap: TensorFlow is imported by `models`, `schedules`, `optimizers` and
`distributed`, and Horovod only when a collective is called, so `data` can be used in any notebook.
"""
