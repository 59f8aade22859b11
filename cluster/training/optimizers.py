"""Momentum whose velocity remembers no learning rate. Lecture 08 shows, in 8.8, what Keras' own does.

Goyal et al., *Accurate, large minibatch SGD: training ImageNet in 1 hour* (arXiv 1706.02677, section 3), call
the repair momentum correction. It matters wherever the learning rate changes: in a warmup, at a drop.
"""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="cluster")
class CorrectedSGD(keras.optimizers.SGD):
    """SGD with momentum m, whose steps all have the learning rate η of today:

        u = m u + g        the velocity, in the unit of gradients
        w = w - η u        with nesterov=True w = w - η (m u + g)

    Keras' own SGD keeps the product, v = m v - η g and w = w + v: where η changes, the gradients of before go
    on at the rate of before. While η is constant the two are the same, and so they are without momentum.

    It takes what keras.optimizers.SGD takes (`learning_rate`, a number or a schedule, `momentum` from 0 to 1,
    `nesterov`, weight decay, clipping) and raises its errors. A checkpoint of one of the two does not fit the
    other: its velocities would be wrong by the factor -η.
    """

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """One variable's step, which Keras calls: gradient and variable of one shape, the rate a scalar."""
        if self.momentum == 0:
            super().update_step(gradient, variable, learning_rate)
            return
        rate, gradient = ops.cast(learning_rate, variable.dtype), ops.cast(gradient, variable.dtype)
        m, u = ops.cast(self.momentum, variable.dtype), self.momentums[self._get_variable_index(variable)]
        self.assign(u, ops.add(ops.multiply(m, u), gradient))
        ahead = ops.add(ops.multiply(m, u), gradient) if self.nesterov else u
        self.assign_sub(variable, ops.multiply(rate, ahead))
