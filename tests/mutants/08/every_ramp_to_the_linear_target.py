MISUNDERSTANDING = "A warmup rises to kη, whatever the rule."
FAILS = {"schedule-by-hand"}
REPLACE = {
    "learning-rate": """
W = warmup_epochs * steps_an_epoch
high = lr * k if warmup == "gradual" and step < W else target_rate(lr, k, rule)
rate = warmed_up(step, lr, high, W, warmup)
return rate * 0.1 ** sum(step >= epoch * steps_an_epoch for epoch in drops)
"""
}
