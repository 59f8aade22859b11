MISUNDERSTANDING = "The old weights are not needed any more, so they are overwritten."
FAILS = {"momentum-same-path"}
REPLACE = {
    "momentum-step": """
v *= momentum * lr / lr_before
v += lr * gradient
w -= momentum * v + lr * gradient if nesterov else v
return w, v
"""
}
