MISUNDERSTANDING = "A warmup starts at 0; gradual warmup starts at the learning rate of one rank."
FAILS = {"warmup-by-hand", "warmup-values"}
REPLACE = {"learning-rate": "return size * lr * min(step / warmup, 1.0)"}
