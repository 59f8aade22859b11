UNUSUAL = "The checker returns early, or has all slopes in one array before it judges."
REPLACE = {
    "check_gradient": """
here = float(value := loss(x))
h = 10 * float(np.finfo(getattr(value, "dtype", float)).eps) * max(1, abs(here)) / tolerance
if h > largest:
    return "undecided"
flat = np.ascontiguousarray(x).ravel()
steps = np.maximum(h, 128 * np.abs(np.spacing(flat)).astype(float))

def slope(i, sign):
    y = flat.copy()
    y[i] = y[i] + sign * steps[i]
    return (float(loss(y.reshape(x.shape))) - here) / (float(y[i]) - float(flat[i]))

both = np.array([[slope(i, s) for s in (-1, 1)] for i in range(flat.size)])
claimed = gradient.ravel().astype(float)
with np.errstate(invalid="ignore"):
    off = np.maximum(np.maximum(both.min(1) - claimed, claimed - both.max(1)), 0)
verdict = "right" if np.all(off <= tolerance) else "wrong"
""",
}
