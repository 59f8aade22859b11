UNUSUAL = "Cost: the whole step passes in virtual time, with images that are all zero."
REPLACE = {
    "step-seconds": """
def one(comm):
    x, y = np.zeros((n, 196)), np.zeros(n, int)
    update(comm, start(recipe, 0), x, y, recipe, 0)


return simulate(one, ranks=p, network=MACHINE).time
""",
    "lower-bound": """
from statistics import fmean, stdev

t = {2: 6.313752, 3: 2.919986, 4: 2.353363, 5: 2.131847, 6: 2.015048, 7: 1.94318, 8: 1.894579, 9: 1.859548}
return fmean(accuracies) - t.get(len(accuracies), 1.833113) * stdev(accuracies) * len(accuracies) ** -0.5
""",
}
