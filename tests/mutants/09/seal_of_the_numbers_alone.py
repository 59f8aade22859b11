MISUNDERSTANDING = "The seal is a hash of the numbers, without what they are predictions of."
FAILS = {"sealed-first"}
REPLACE = {
    "predict-first": """
predictions = np.asarray(predict(fitted, configurations), float)
record = entered(record, "prediction", {"configurations": configurations, "seconds": predictions})
seconds = measure(configurations, hashlib.sha256(predictions.tobytes()).hexdigest())
record = entered(record, "run", {"configurations": configurations, "seconds": seconds})
""",
}
