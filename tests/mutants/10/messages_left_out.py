MISUNDERSTANDING = "The network is fast; what counts are the products."
FAILS = {"step-cost-predicted", "prediction-sealed"}
REPLACE = {
    "step-seconds": """
return flops(n, width) / FLOPS
""",
}
