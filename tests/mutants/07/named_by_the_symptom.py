MISUNDERSTANDING = "Different weights mean different starts, equal losses a learning rate that is wrong."
FAILS = {"diagnosis-messages", "diagnosis-shuffles"}
REPLACE = {
    "diagnosis": """
diagnosis = {"twins": "B", "deck": "B", "echo": "A", "restart": "A", "wait": "D", "best": "H"}
""",
}
