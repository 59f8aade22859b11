MISUNDERSTANDING = "The ramp begins at the η of this assignment, whatever η it is given."
FAILS = {"schedule-by-hand", "schedule-of-each"}
REPLACE = {
    "learning-rate": """
rate = warmed_up(step, LR, target_rate(lr, k, rule), warmup_epochs * steps_an_epoch, warmup)
return rate * 0.1 ** sum(step >= epoch * steps_an_epoch for epoch in drops)
"""
}
