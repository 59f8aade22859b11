MISUNDERSTANDING = "The learning rate before is that of the call before."
FAILS = {"momentum-by-hand"}
REPLACE = {
    "momentum-step": """
before = getattr(momentum_step, "before", lr)
momentum_step.before = lr
v = momentum * (lr / before) * v + lr * gradient
return w - (momentum * v + lr * gradient if nesterov else v), v
""",
}
