MISUNDERSTANDING = "Sizes and times may each be sorted."
FAILS = {
    "iteration-by-hand",
}
REPLACE = {
    "iteration-seconds": """
sizes, ready = sorted(sizes), sorted(ready)

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
