"""Run a module of this folder in a bubblewrap of its own: `python -m … MODULE DESCRIPTOR …`."""

import importlib
import sys

from ..sandbox import namespaces

namespaces.confine()
importlib.import_module(f"{__package__}.{sys.argv[1]}").main(list(map(int, sys.argv[2:])))
