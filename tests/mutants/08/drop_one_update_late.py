MISUNDERSTANDING = "The rate falls after the first update of the epoch, not with it."
FAILS = {"schedule-by-hand", "schedule-of-each"}
REPLACE = {
    "learning-rate": """
rate = warmed_up(step, lr, target_rate(lr, k, rule), warmup_epochs * steps_an_epoch, warmup)
return rate * 0.1 ** sum(step > epoch * steps_an_epoch for epoch in drops)
"""
}
