MISUNDERSTANDING = "A plan in epochs changes the rate once an epoch."
FAILS = {"schedule-by-hand", "schedule-of-each"}
REPLACE = {
    "learning-rate": """
epoch = step // steps_an_epoch
rate = warmed_up(epoch, lr, target_rate(lr, k, rule), warmup_epochs, warmup)
return rate * 0.1 ** sum(epoch >= drop for drop in drops)
""",
}
