MISUNDERSTANDING = "The old step is scaled by the old learning rate over the new one."
FAILS = {"momentum-by-hand", "momentum-same-path", "runs-recomputed"}
REPLACE = {
    "momentum-step": """
v = momentum * (lr_before / lr) * v + lr * gradient
return w - v, v
"""
}
