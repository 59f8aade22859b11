UNUSUAL = "TensorFlow and pandas where NumPy is usual; results are tensors, tuples and numbers of theirs."
REPLACE = {
    "stale-sgd": """
import tensorflow as tf

path = [tf.constant(w, tf.float64)]
for t, s in enumerate(staleness):
    slope = tf.convert_to_tensor(gradient(path[max(t - s, 0)].numpy()), tf.float64)
    path.append(path[-1] - (rate / max(s, 1) if aware else rate) * slope)
weights = tf.stack(path).numpy()
""",
    "score": """
import pandas as pd

table = pd.DataFrame({"low": low, "middle": middle, "high": high, "y": measured, "base": baseline})
logs = np.log(table)
skill = 1 - (logs.middle - logs.y).abs().median() / (logs.base - logs.y).abs().median()
coverage = table.y.between(table.low, table.high).mean()
below, above = (logs.low - logs.y).clip(lower=0), (logs.y - logs.high).clip(lower=0)
interval = (logs.high - logs.low + 10 * (below + above)).mean()
""",
    "best-plan": """
import pandas as pd

known = pd.Series(needs, dtype=float).sort_index()
table = pd.DataFrame(plans, columns=["p", "n", "bytes"])
table[["low", "middle", "high"]] = np.asarray(predictions, float)
table["batch"] = table.p * table.n
table["updates"] = np.exp(np.interp(np.log(table.batch), np.log(known.index), np.log(known)))
table = table[(table.batch >= known.index[0]) & (table.batch <= known.index[-1])]
table = table[table.p * table.updates * table.high <= budget]
best = None if table.empty else (table.updates * table.middle).idxmin()
""",
    "predict-first": """
import copy

ledger = copy.deepcopy(record)
asked = [list(map(int, c)) for c in configurations]
rows = [[float(v) for v in row] for row in predict(fitted, configurations)]
for kind in ("prediction", "run"):
    if kind == "run":
        rows = [float(v) for v in measure(configurations=asked, seal=ledger[-1]["hash"])]
    before = ledger[-1]["hash"] if ledger else ""
    content = dict(configurations=asked, seconds=rows)
    ledger.append(dict(hash=digest(before, kind, content), previous=before, content=content, kind=kind))
record = ledger
""",
}
