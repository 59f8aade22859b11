MISUNDERSTANDING = "Behind a 1 × 1 convolution filters have one weight a channel."
FAILS = {
    "break-even",
    "reduction-cost",
}
REPLACE = {
    "reduced_cost": """
multiply_adds = C * r + r * K
""",
    "break_even": """
direct, each = k * k * C * K, C + K
r = (direct - 1) // each
""",
}
