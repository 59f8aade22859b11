MISUNDERSTANDING = "Communication begins when the backward pass has ended."
FAILS = {"iteration-by-hand"}
REPLACE = {
    "iteration-seconds": """
network = Network(latency, time_per_byte)
buffers = [fusion.Buffer(str(i), size, at) for i, (size, at) in enumerate(zip(sizes, ready, strict=True))]
buffers = [fusion.Buffer(b.name, b.size, backward) for b in buffers]
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
