"""The learning rate of p ranks as a function of the step.

Goyal et al., *Accurate, large minibatch SGD: training ImageNet in 1 hour* (arXiv 1706.02677): k times the
batch takes k times the learning rate, reached from the old one by equal increments at each iteration.
Assignment 07 builds the gradual warmup.
"""

import keras
from keras import ops

KINDS = ("gradual", "constant", "none")


@keras.saving.register_keras_serializable(package="cluster")
class LinearWarmup(keras.optimizers.schedules.LearningRateSchedule):
    """Linear scaling: the learning rate η of one rank becomes kη on k ranks, after a warmup.

    base          η, the learning rate that suits one rank and its batch
    ranks         k, the number of ranks, each with a batch as large as the one of η
    warmup_steps  W, the number of updates after which kη holds; the paper takes those of 5 epochs
    kind          of warmup, in the paper's words:
                  "gradual"   η + (kη - η) t / W at update t = 0 ... W, then kη
                  "constant"  η before update W, then kη
                  "none"      kη at once

    Raises ValueError for values that make no schedule.
    """

    def __init__(self, base, ranks, warmup_steps, kind="gradual"):
        if kind not in KINDS:
            raise ValueError(f"kind={kind!r}: the kinds of warmup are {', '.join(KINDS)}")
        if base <= 0 or ranks < 1 or warmup_steps < 0:
            raise ValueError(
                f"base={base}, ranks={ranks}, warmup_steps={warmup_steps}: "
                "base must be above 0, ranks at least 1, warmup_steps at least 0"
            )
        self.base, self.ranks, self.warmup_steps, self.kind = base, ranks, warmup_steps, kind

    def __call__(self, step):
        target = self.base * self.ranks
        if self.kind == "none" or self.warmup_steps == 0:
            return ops.convert_to_tensor(target, "float32")
        warm = ops.minimum(ops.cast(step, "float32") / self.warmup_steps, 1.0)  # 0 ... 1, then stays 1
        if self.kind == "constant":
            warm = ops.floor(warm)
        return self.base + (target - self.base) * warm

    def get_config(self):
        return {
            "base": self.base,
            "ranks": self.ranks,
            "warmup_steps": self.warmup_steps,
            "kind": self.kind,
        }
