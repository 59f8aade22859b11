UNUSUAL = "Rates are looked up: np.interp for the gradual warmup, np.geomspace for the geometric one."
REPLACE = {
    "target-rate": """
import math

return {"none": lr, "linear": math.prod([lr, k]), "sqrt": lr * math.sqrt(k)}[rule]
""",
    "warmed-up": """
if steps == 0 or kind == "none":
    return target
tables = {
    "constant": np.full(steps, lr),
    "gradual": np.interp(np.arange(steps), [0, steps], [lr, target]),
    "geometric": np.geomspace(lr, target, steps + 1)[:-1],
}
return np.append(tables[kind], target)[min(step, steps)]
""",
    "learning-rate": """
W = warmup_epochs * steps_an_epoch
rate = warmed_up(step, lr, target_rate(lr, k, rule), W, warmup)
for epoch in drops:
    if step // steps_an_epoch >= epoch:
        rate /= 10
return rate
""",
}
