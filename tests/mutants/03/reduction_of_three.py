MISUNDERSTANDING = "The filters are 3 × 3, as nearly always."
FAILS = {
    "reduction-cost",
}
REPLACE = {
    "reduced_cost": """
multiply_adds = C * r + 9 * r * K
""",
}
