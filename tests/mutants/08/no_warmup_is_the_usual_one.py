MISUNDERSTANDING = "A plan without a warmup has left it out, so it gets the usual one."
FAILS = {"schedule-of-each"}
REPLACE = {
    "learning-rate": """
W = (warmup_epochs or WARMUP) * steps_an_epoch
rate = warmed_up(step, lr, target_rate(lr, k, rule), W, warmup)
return rate * 0.1 ** sum(step >= epoch * steps_an_epoch for epoch in drops)
"""
}
