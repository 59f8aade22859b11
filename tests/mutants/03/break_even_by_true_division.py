MISUNDERSTANDING = "The largest r is just below the quotient, rounded down."
FAILS = {
    "break-even",
}
REPLACE = {
    "break_even": """
r = math.ceil(k * k * C * K / (C + k * k * K)) - 1
""",
}
