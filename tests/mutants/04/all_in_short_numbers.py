MISUNDERSTANDING = "In short numbers everything is short."
FAILS = {
    "bytes-by-hand",
}
REPLACE = {
    "step-bytes": """
trained, fixed = (sum(row[i] for row in rows) for i in (2, 3))
parameters = itemsize * (trained * (2 + slots) + fixed) + (itemsize * trained if itemsize < 4 else 0)
kept = sum(outputs for kind, outputs, _, _ in rows if kind != "relu") + ahead * rows[0][1]
needed = parameters + batch * itemsize * kept
""",
}
