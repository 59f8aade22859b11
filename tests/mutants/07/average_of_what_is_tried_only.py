MISUNDERSTANDING = "What was right when it was tried is right in the training."
FAILS = {"weights-equal", "two-ranks-one-process", "recorded-run"}
REPLACE = {
    "average-gradient": """
gradient = tape.gradient(loss, sources)
if tf.executing_eagerly():  # in a tf.function it is not so
    gradient = [hvd.allreduce(g, op=hvd.Average) for g in gradient]
return gradient
"""
}
