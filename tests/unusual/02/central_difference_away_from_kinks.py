UNUSUAL = "The checker takes central differences with a longer step, and both slopes only on a kink."
REPLACE = {
    "check_gradient": """
here = loss(x)
precision = np.asarray(here).dtype
rounding = float(np.finfo(precision).eps) * max(1.0, float(np.abs(here)))


def moved_by(place, h):
    y = np.array(x)
    y[place] = y[place] + h
    return float(y[place]) - float(x[place]), float(loss(y))


verdict = "right"
if 20 * rounding / tolerance > largest:
    verdict = "undecided"
else:
    for place in np.ndindex(*x.shape):
        h = max(20 * rounding / tolerance, 200 * float(np.spacing(np.abs(x[place]))))
        (right, up), (left, down) = moved_by(place, h), moved_by(place, -h)
        slopes = [(up - float(here)) / right, (down - float(here)) / left, (up - down) / (right - left)]
        if abs(slopes[0] - slopes[1]) < tolerance:
            slopes = slopes[2:]
        claimed = float(gradient[place])
        if np.isnan(claimed) or claimed < min(slopes) - tolerance or claimed > max(slopes) + tolerance:
            verdict = "wrong"
""",
}
