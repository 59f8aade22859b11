MISUNDERSTANDING = "A loss of nearly 0 has nearly no rounding error, however it was computed."
FAILS = {
    "checker-passes",
}
REPLACE = {
    "check_gradient": """
here = loss(x)
epsilon = np.finfo(np.asarray(here).dtype).eps
step = 10 * float(epsilon) * abs(float(here)) / tolerance
verdict = "undecided" if step > largest else "right"
for place in np.ndindex(x.shape) if verdict == "right" else ():
    slopes = []
    for sign in (-1, 1):
        moved = x.copy()
        moved[place] += sign * max(step, 100 * abs(float(np.spacing(x[place]))))
        taken = float(moved[place]) - float(x[place])
        slopes.append((float(loss(moved)) - float(here)) / taken)
    if not min(slopes) - tolerance <= gradient[place] <= max(slopes) + tolerance:
        verdict = "wrong"
        break
""",
}
