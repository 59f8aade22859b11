"""The learning rate of p ranks as a function of the step.

Goyal et al., *Accurate, large minibatch SGD: training ImageNet in 1 hour* (arXiv 1706.02677), use k times
the learning rate for k times the batch. They increase it from the original one by equal increments at each
iteration. Assignment 07 builds the gradual warmup, assignment 08 the schedule that follows it.
"""

from typing import Any

import keras
from keras import ops

KINDS = ("gradual", "constant", "none")


@keras.saving.register_keras_serializable(package="cluster")
class LinearWarmup(keras.optimizers.schedules.LearningRateSchedule):
    """Linear scaling: the learning rate η of one rank becomes kη on k ranks, after a warmup.

    base          η, the learning rate that suits one rank and its batch
    ranks         k, the number of ranks, each with a batch as large as the one of η
    warmup_steps  W, the number of updates after which kη holds; the paper uses 5 epochs
    kind          of warmup, in the paper's words:
                  "gradual"   η + (kη - η) t / W at update t = 0 ... W, then kη
                  "constant"  η before update W, then kη
                  "none"      kη at once
    after         a Keras schedule that holds from update W on, instead of kη. The warmup then ends at its
                  value, after(W). Its learning rates are for all k ranks and are not multiplied again. It
                  counts the updates of the whole training run, including the warmup, like the paper's drops
                  at epochs 30, 60 and 80.

        S = shards.steps  # updates of an epoch
        falls = keras.optimizers.schedules.PiecewiseConstantDecay([30 * S - 1], [0.8, 0.08])  # from 30 S on
        LinearWarmup(0.1, ranks=8, warmup_steps=5 * S, after=falls)

    Called with a step, the number of earlier updates (an integer, or a scalar tensor), it returns the
    learning rate as a float32 scalar. With momentum, use `optimizers.CorrectedSGD`, because earlier learning
    rates persist in the velocity of Keras' own SGD.

    Raises ValueError for invalid values.
    """

    def __init__(
        self,
        base: float,
        ranks: int,
        warmup_steps: int,
        kind: str = "gradual",
        after: keras.optimizers.schedules.LearningRateSchedule | None = None,
    ):
        if kind not in KINDS:
            raise ValueError(f"kind={kind!r}: the kinds of warmup are {', '.join(KINDS)}")
        if base <= 0 or ranks < 1 or warmup_steps < 0:
            raise ValueError(
                f"base={base}, ranks={ranks}, warmup_steps={warmup_steps}: "
                "base must be above 0, ranks at least 1, warmup_steps at least 0"
            )
        if after is not None and not isinstance(after, keras.optimizers.schedules.LearningRateSchedule):
            raise ValueError(f"after={after!r}: it must be a keras.optimizers.schedules schedule, or None")
        self.base, self.ranks, self.warmup_steps, self.kind = base, ranks, warmup_steps, kind
        self.after = after

    def __call__(self, step: Any) -> Any:
        warming = self.kind != "none" and self.warmup_steps > 0
        if self.after is None:
            target = now = self.base * self.ranks
        else:
            now = ops.cast(self.after(step), "float32")
            target = ops.cast(self.after(self.warmup_steps), "float32") if warming else now
        if not warming:
            return ops.convert_to_tensor(now, "float32")
        warm = ops.minimum(ops.cast(step, "float32") / self.warmup_steps, 1.0)  # 0 ... 1, then stays 1
        if self.kind == "constant":
            warm = ops.floor(warm)
        rate = self.base + (target - self.base) * warm
        return rate if self.after is None else ops.where(step < self.warmup_steps, rate, now)

    def get_config(self) -> dict[str, Any]:
        """Return the arguments that recreate it, as JSON types."""
        config = {
            "base": self.base,
            "ranks": self.ranks,
            "warmup_steps": self.warmup_steps,
            "kind": self.kind,
        }
        if self.after is not None:
            config["after"] = keras.saving.serialize_keras_object(self.after)
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> "LinearWarmup":
        """Return the schedule that `get_config` describes."""
        after = config.get("after")
        return cls(**config | {"after": after and keras.saving.deserialize_keras_object(after)})
