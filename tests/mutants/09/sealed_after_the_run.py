MISUNDERSTANDING = "The predictions are entered when the run has been made."
FAILS = {"sealed-first"}
REPLACE = {
    "predict-first": """
predictions = np.asarray(predict(fitted, configurations), float)
seconds = measure(configurations, record[-1]["hash"] if record else "0" * 64)
record = entered(record, "prediction", {"configurations": configurations, "seconds": predictions})
record = entered(record, "run", {"configurations": configurations, "seconds": seconds})
""",
}
