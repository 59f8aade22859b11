"""The former name of `cluster.pages.validate`, which servers started before the change still run."""

import sys

from cluster.pages.validate import main

if __name__ == "__main__":
    main(sys.argv[1])
