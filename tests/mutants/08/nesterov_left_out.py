MISUNDERSTANDING = "Nesterov's momentum is another name for momentum."
FAILS = {"momentum-by-hand", "momentum-same-path"}
REPLACE = {
    "momentum-step": """
v = momentum * (lr / lr_before) * v + lr * gradient
return w - v, v
"""
}
