MISUNDERSTANDING = "If the run is far off, it is made again."
FAILS = {"sealed-first"}
REPLACE = {
    "predict-first": """
predictions = np.asarray(predict(fitted, configurations), float)
record = entered(record, "prediction", {"configurations": configurations, "seconds": predictions})
first = measure(configurations, record[-1]["hash"])
second = measure(configurations, record[-1]["hash"])
seconds = np.minimum(first, second)
record = entered(record, "run", {"configurations": configurations, "seconds": seconds})
""",
}
