MISUNDERSTANDING = "A 1 × 1 convolution costs nothing."
FAILS = {
    "reduction-cost",
    "break-even",
}
REPLACE = {
    "reduced_cost": """
multiply_adds = k * k * r * K
""",
    "break_even": """
r = (k * k * C * K - 1) // (k * k * K)
""",
}
