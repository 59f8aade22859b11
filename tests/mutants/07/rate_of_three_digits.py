MISUNDERSTANDING = "A learning rate needs no more than three digits after the point."
FAILS = {"warmup-values"}
REPLACE = {"learning-rate": "return round(lr + (size * lr - lr) * min(step / warmup, 1.0), 3)"}
