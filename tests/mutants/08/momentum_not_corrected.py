MISUNDERSTANDING = "Momentum is a number between 0 and 1; the learning rate has nothing to do with it."
FAILS = {"momentum-by-hand", "momentum-same-path"}
REPLACE = {
    "momentum-step": """
v = momentum * v + lr * gradient
return w - (momentum * v + lr * gradient if nesterov else v), v
"""
}
