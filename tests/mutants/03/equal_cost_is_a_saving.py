MISUNDERSTANDING = "The way round saves as long as it is not dearer."
FAILS = {
    "break-even",
}
REPLACE = {
    "break_even": """
r = k * k * C * K // (C + k * k * K)
""",
}
