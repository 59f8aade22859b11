MISUNDERSTANDING = "What is corrected is the whole step, the new gradient included."
FAILS = {"momentum-by-hand", "momentum-same-path"}
REPLACE = {
    "momentum-step": """
v = (lr / lr_before) * (momentum * v + lr * gradient)
return w - (momentum * v + lr * gradient if nesterov else v), v
"""
}
