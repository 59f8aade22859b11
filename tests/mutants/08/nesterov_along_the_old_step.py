MISUNDERSTANDING = "Nesterov's step looks ahead along the step before."
FAILS = {"momentum-by-hand", "momentum-same-path"}
REPLACE = {
    "momentum-step": """
old = v
v = momentum * (lr / lr_before) * v + lr * gradient
return w - (momentum * old + lr * gradient if nesterov else v), v
"""
}
