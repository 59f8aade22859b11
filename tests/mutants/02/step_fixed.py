MISUNDERSTANDING = "A step of 1e-5 is good for every loss."
FAILS = {
    "checker-catches",
    "checker-passes",
    "checker-near-a-kink",
}
REPLACE = {
    "check_gradient": """
here = loss(x)
epsilon = np.finfo(np.asarray(here).dtype).eps
step = 10 * float(epsilon) * max(1, abs(float(here))) / tolerance
verdict = "undecided" if step > largest else "right"
for place in np.ndindex(x.shape) if verdict == "right" else ():
    slopes = []
    for sign in (-1, 1):
        moved = x.copy()
        moved[place] += sign * 1e-5
        taken = float(moved[place]) - float(x[place])
        slopes.append((float(loss(moved)) - float(here)) / taken)
    if not min(slopes) - tolerance <= gradient[place] <= max(slopes) + tolerance:
        verdict = "wrong"
        break
""",
}
