MISUNDERSTANDING = "What is trained must be equal; the rest takes care of itself."
FAILS = {"ranks-start-equal"}
REPLACE = {"broadcast": "hvd.broadcast_variables([v.value for v in variables if v.trainable], root_rank=0)"}
