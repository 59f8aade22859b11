MISUNDERSTANDING = "A process that the notebook starts is a job."
FAILS = {"best-found", "sweep-again", "sweep-failures", "sweep-values"}
REPLACE = {
    "sweep-over": """
import multiprocessing

def run(pipe, item):
    try:
        pipe.send((function(item), None))
    except Exception:
        pipe.send((None, "RankFailed"))

values, errors = [], {}
for i, item in enumerate(items):
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.get_context("fork").Process(target=run, args=(theirs, item))
    process.start()
    process.join()
    value, error = ours.recv() if ours.poll() else (None, "RankKilled")
    values.append(value)
    if error:
        errors[i] = error
return values, errors
""",
}
