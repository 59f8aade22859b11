MISUNDERSTANDING = "Averaged gradients keep the ranks equal, whatever weights they start from."
FAILS = {"ranks-start-equal", "weights-equal", "two-ranks-one-process"}
REPLACE = {"broadcast": "pass"}
