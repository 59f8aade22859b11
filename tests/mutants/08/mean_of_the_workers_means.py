MISUNDERSTANDING = (
    "The mean of the workers' means is the mean, although they saw different numbers of images."
)
FAILS = {"gradient-by-hand"}
REPLACE = {
    "batch-gradient": """
return (sums / seen[:, None]).mean(axis=0) + decay * w
"""
}
