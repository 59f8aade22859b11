MISUNDERSTANDING = "The correction takes the place of the momentum."
FAILS = {"momentum-by-hand", "momentum-same-path"}
REPLACE = {
    "momentum-step": """
v = lr / lr_before * v + lr * gradient
return w - (momentum * v + lr * gradient if nesterov else v), v
"""
}
