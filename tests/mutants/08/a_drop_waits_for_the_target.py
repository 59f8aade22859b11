MISUNDERSTANDING = (
    "Where the warmup ends the target has its turn first, so that a drop with that epoch is none."
)
FAILS = {"schedule-of-each"}
REPLACE = {
    "learning-rate": """
rate = warmed_up(step, lr, target_rate(lr, k, rule), warmup_epochs * steps_an_epoch, warmup)
return rate * 0.1 ** sum(step >= epoch * steps_an_epoch for epoch in drops if epoch > warmup_epochs)
"""
}
