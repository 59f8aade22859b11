"""Modules outside packages: the scripts of the lectures and of their recorded runs."""

import importlib.util
from pathlib import Path
from types import ModuleType

from . import ROOT


def module_of(path: Path | str) -> ModuleType:
    """Return the module of a file, relative to the repository; leave sys.path and sys.modules unchanged."""
    path = ROOT / path
    spec = importlib.util.spec_from_file_location(f"script_{path.stem}", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
