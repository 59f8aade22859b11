MISUNDERSTANDING = "The scaled learning rate holds from the first step on."
FAILS = {"warmup-by-hand", "warmup-values", "two-ranks-one-process"}
REPLACE = {"learning-rate": "return size * lr"}
