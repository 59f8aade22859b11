"""Momentum with a velocity independent of earlier learning rates, unlike in Keras (lecture 08, section 8.8).

Goyal et al., *Accurate, large minibatch SGD: training ImageNet in 1 hour* (arXiv 1706.02677, section 3), call
the repair momentum correction. It matters whenever the learning rate changes: in a warmup, at a drop.
"""

from typing import Any

import keras
from keras import ops


@keras.saving.register_keras_serializable(package="cluster")
class CorrectedSGD(keras.optimizers.SGD):
    """SGD with momentum m whose steps all use the current learning rate η:

        u = m u + g        the velocity, in the same units as the gradient
        w = w - η u        with nesterov=True w = w - η (m u + g)

    Keras' own SGD stores the product, v = m v - η g and w = w + v: if η changes, earlier gradients keep the
    learning rate with which they were added. While η is constant, or without momentum, the two are the same.

    It takes the arguments of keras.optimizers.SGD (`learning_rate`, a number or a schedule, `momentum` from 0
    to 1, `nesterov`, weight decay, clipping) and raises its errors. A checkpoint of one does not fit the
    other, because its velocities would be wrong by the factor -η.
    """

    def update_step(self, gradient: Any, variable: Any, learning_rate: Any) -> None:
        """Update a variable; Keras passes gradient and variable of one shape, and a scalar learning rate."""
        if self.momentum == 0:
            super().update_step(gradient, variable, learning_rate)
            return
        rate, gradient = ops.cast(learning_rate, variable.dtype), ops.cast(gradient, variable.dtype)
        m, u = ops.cast(self.momentum, variable.dtype), self.momentums[self._get_variable_index(variable)]
        self.assign(u, ops.add(ops.multiply(m, u), gradient))
        ahead = ops.add(ops.multiply(m, u), gradient) if self.nesterov else u
        self.assign_sub(variable, ops.multiply(rate, ahead))
