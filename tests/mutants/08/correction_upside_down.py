MISUNDERSTANDING = "The old step is scaled by the old learning rate over the new one."
FAILS = {"momentum-by-hand", "momentum-same-path"}
REPLACE = {
    "momentum-step": """
v = momentum * (lr_before / lr) * v + lr * gradient
return w - (momentum * v + lr * gradient if nesterov else v), v
"""
}
