UNUSUAL = "Each claim is a pair, turned so that a positive difference speaks for it."
REPLACE = {
    "conclusions": """
higher_lower = dict(
    A=("naive", "small"),
    B=("naive", "sqrt"),
    C=("naive", "linear"),
    D=("linear", "constant"),
    E=("constant", "gradual"),
    F=("sqrt", "gradual"),
    G=("gradual", "small"),
)


def answer(claim):
    if claim not in higher_lower:
        return ANSWERS[3]
    signs = {float(np.sign(end)) for end in interval(*(errors[name] for name in higher_lower[claim]))}
    return {(1.0,): ANSWERS[0], (-1.0,): ANSWERS[1]}.get(tuple(signs), ANSWERS[2])


return {claim: answer(claim) for claim in reversed(sorted(CLAIMS))}
""",
}
