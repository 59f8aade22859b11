MISUNDERSTANDING = "The velocity is the sum of all steps so far: each new one is added to it."
FAILS = {"momentum-by-hand", "momentum-same-path"}
REPLACE = {
    "momentum-step": """
v = v + lr * gradient
return w - (momentum * v + lr * gradient if nesterov else v), v
"""
}
