MISUNDERSTANDING = "The all-reduce has d numbers, and β is the time of one."
FAILS = {"step-cost-predicted", "prediction-sealed"}
REPLACE = {
    "step-seconds": """
d = 207 * width + 10
latencies = 2 * MACHINE.latency * (p > 1)
return flops(n, width) / FLOPS + latencies + 2 * (p - 1) / p * d * MACHINE.time_per_byte
""",
}
