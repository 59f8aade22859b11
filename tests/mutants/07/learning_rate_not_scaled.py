MISUNDERSTANDING = (
    "The gradient is a mean, so the learning rate stays what it was, however many ranks there are."
)
FAILS = {"warmup-by-hand", "warmup-values"}
REPLACE = {"learning-rate": "return lr"}
