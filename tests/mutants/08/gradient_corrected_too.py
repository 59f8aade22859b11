MISUNDERSTANDING = "What is corrected is the whole step, the new gradient included."
FAILS = {"momentum-by-hand", "momentum-same-path", "runs-recomputed"}
REPLACE = {
    "momentum-step": """
v = (lr / lr_before) * (momentum * v + lr * gradient)
return w - v, v
"""
}
