MISUNDERSTANDING = "Averaged gradients keep the ranks equal, whatever weights they start from."
FAILS = {"ranks-start-equal"}
REPLACE = {"broadcast": "pass"}
