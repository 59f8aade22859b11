MISUNDERSTANDING = "A gradient may travel in 16 bits: that is half the bytes for the same mean."
FAILS = {"gradient-by-hand"}
REPLACE = {
    "average-gradient": """
tape = hvd.DistributedGradientTape(tape, compression=hvd.Compression.fp16)
return tape.gradient(loss, sources)
"""
}
