MISUNDERSTANDING = "Five epochs of warmup are five updates."
FAILS = {"schedule-by-hand", "schedule-of-each"}
REPLACE = {
    "learning-rate": """
rate = warmed_up(step, lr, target_rate(lr, k, rule), warmup_epochs, warmup)
return rate * 0.1 ** sum(step >= epoch * steps_an_epoch for epoch in drops)
"""
}
