MISUNDERSTANDING = "The central difference is more accurate, so one slope is enough."
FAILS = {
    "checker-near-a-kink",
}
REPLACE = {
    "check_gradient": """
here = loss(x)
step = 10 * float(np.finfo(np.asarray(here).dtype).eps) * max(1, abs(float(here))) / tolerance
verdict = "undecided" if step > largest else "right"
for place in np.ndindex(x.shape) if verdict == "right" else ():
    up, down = x.copy(), x.copy()
    h = max(step, 100 * abs(float(np.spacing(x[place]))))
    up[place] += h
    down[place] -= h
    slope = (float(loss(up)) - float(loss(down))) / (float(up[place]) - float(down[place]))
    if not abs(slope - gradient[place]) <= tolerance:
        verdict = "wrong"
""",
}
