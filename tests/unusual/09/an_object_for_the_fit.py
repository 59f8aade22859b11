UNUSUAL = (
    "What fit returns is an object of the student's; buckets are kept, and the ring is a running maximum."
)
REPLACE = {
    "iteration": """
key = (p, bucket, id(gradients))
kept = iteration_seconds.__dict__
if key not in kept:
    groups, room = [], -1
    for size, share in gradients:
        if size > room:
            groups.append([0, 0.0])
            room = bucket
        groups[-1][0] += size
        groups[-1][1] = share
        room -= size
    kept[key] = np.array(groups, float).T, gradients
(sizes, shares), _ = kept[key]
mean = fixed + n * image
late = mean + mean * spread * SLOWEST[p]
if p == 1:
    return late
alpha, beta = (latency, time_per_byte) if p > NODE else INSIDE
cost = (2 * p - 2) * (alpha + sizes * (beta / p))
rest = np.cumsum(cost[::-1])[::-1]
seconds = np.max(late / 3 + late * shares * 2 / 3 + rest, initial=late)
""",
    "fit": """
START = [1e-2, 2e-3, 0.02, 1e-4, 3e-10]


class Model:
    def __init__(self, runs):
        self.asked = [c for c, _ in runs]
        self.target = np.log([s for _, s in runs])
        theta, r = least_squares(lambda t: self.logs(t, self.asked) - self.target, START)
        self.theta, self.freedom = theta, len(runs) - 5
        self.variance = r @ r / self.freedom
        jacobian = slopes(lambda t: self.logs(t, self.asked), theta)
        u, s, self.v = np.linalg.svd(jacobian, full_matrices=False)
        self.scale = np.where(s > 1e-4 * s[0], 1 / np.maximum(s, 1e-12), 0.0)

    @staticmethod
    def logs(theta, configurations):
        return np.array([math.log(iteration_seconds(theta, c)) for c in configurations])

    def forecast(self, configurations):
        middle = np.exp(self.logs(self.theta, configurations))
        jacobian = slopes(lambda t: self.logs(t, configurations), self.theta)
        spread = 1 + ((jacobian @ self.v.T * self.scale) ** 2).sum(1)
        half = T90[self.freedom] * np.sqrt(self.variance * spread)
        return list(zip(middle / np.exp(half), middle, middle * np.exp(half)))


fitted = Model(runs)
""",
    "predict": """
predictions = fitted.forecast(configurations)
""",
}
