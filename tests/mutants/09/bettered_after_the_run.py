MISUNDERSTANDING = "The seal is that of the predictions, and then these are made a little better."
FAILS = {"sealed-first"}
REPLACE = {
    "predict-first": """
predictions = np.asarray(predict(fitted, configurations), float)
trial = entered(record, "prediction", {"configurations": configurations, "seconds": predictions})
seconds = measure(configurations, trial[-1]["hash"])
predictions[:, 1] = (predictions[:, 1] + np.asarray(seconds)) / 2
record = entered(record, "prediction", {"configurations": configurations, "seconds": predictions})
record = entered(record, "run", {"configurations": configurations, "seconds": seconds})
""",
}
