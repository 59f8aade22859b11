MISUNDERSTANDING = "Gustafson's fraction is Amdahl's."
FAILS = {"two-laws"}
REPLACE = {
    "scaled": """
return s, s + (1 - s) * p
""",
}
