MISUNDERSTANDING = "Each drop goes to a tenth of the target, so that the second changes nothing."
FAILS = {"schedule-by-hand", "schedule-of-each"}
REPLACE = {
    "learning-rate": """
rate = warmed_up(step, lr, target_rate(lr, k, rule), warmup_epochs * steps_an_epoch, warmup)
return rate * 0.1 if any(step >= epoch * steps_an_epoch for epoch in drops) else rate
"""
}
