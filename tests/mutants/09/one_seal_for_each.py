MISUNDERSTANDING = "Each configuration is run by itself."
FAILS = {"sealed-first"}
REPLACE = {
    "predict-first": """
predictions = np.asarray(predict(fitted, configurations), float)
record = entered(record, "prediction", {"configurations": configurations, "seconds": predictions})
seconds = [measure([c], record[-1]["hash"])[0] for c in configurations]
record = entered(record, "run", {"configurations": configurations, "seconds": seconds})
""",
}
