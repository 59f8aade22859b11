"""The tests as one package: its helpers have full names, so that any selection runs, in any order."""

from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
