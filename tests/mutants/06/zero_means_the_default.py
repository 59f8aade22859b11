MISUNDERSTANDING = "A threshold of 0 means that none was given."
FAILS = {
    "iteration-by-hand",
}
REPLACE = {
    "iteration-seconds": """
threshold = threshold or 64 * 2**20

network = Network(latency, time_per_byte)
buffers = [fusion.Buffer(str(i), size, at) for i, (size, at) in enumerate(zip(sizes, ready, strict=True))]
iteration = fusion.predict(
    buffers,
    lambda size: closed_forms.ring(ranks, size, network),
    forward=forward,
    backward=backward,
    threshold=threshold,
)
seconds = iteration.time
""",
}
