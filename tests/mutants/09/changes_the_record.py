MISUNDERSTANDING = "The record is one list, to which entries are added."
FAILS = {"sealed-first"}
REPLACE = {
    "predict-first": """
predictions = np.asarray(predict(fitted, configurations), float)
record += entered(record, "prediction", {"configurations": configurations, "seconds": predictions})[-1:]
seconds = measure(configurations, record[-1]["hash"])
record += entered(record, "run", {"configurations": configurations, "seconds": seconds})[-1:]
""",
}
