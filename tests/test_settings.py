"""The package's environment variables are all listed in one table and read through it."""

import ast
import re
from pathlib import Path

import pytest

from cluster.jobs import errors
from cluster.jobs.backends import local
from cluster.jobs.run import results
from cluster.system import settings

PACKAGE = Path(settings.__file__).resolve().parents[1]
TABLE = Path(settings.__file__).resolve()


def named():
    """Return {variable: files of the package that name it, except the table itself}."""
    results = {}
    for path in PACKAGE.rglob("*"):
        if path.is_file() and path.suffix not in (".pyc", ".png") and path != TABLE:
            for name in re.findall(r"\bCLUSTER_[A-Z_]*[A-Z]\b", path.read_text(errors="replace")):
                results.setdefault(name, set()).add(path.name)
    return results


def test_every_variable_is_in_the_table_and_none_of_the_table_is_unused():
    assert named().keys() == settings.SETTINGS.keys()


def reads(path):
    """Yield (line, variable) for each place where a module reads one of our variables from a mapping."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            key = node.slice
        elif isinstance(node, ast.Call) and getattr(node.func, "attr", "") in ("get", "getenv") and node.args:
            key = node.args[0]
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            key = node.left
        else:
            continue
        if isinstance(key, ast.Constant) and str(key.value).startswith("CLUSTER_"):
            yield node.lineno, key.value


def test_they_are_read_through_the_table_alone():
    """Does only the table read our variables? The hub's site files are copied to where the package is not."""
    paths = [p for p in PACKAGE.rglob("*.py") if p != TABLE and p.parent.name != "site"]
    assert not [(str(p.relative_to(PACKAGE)), *r) for p in paths for r in reads(p)]


def test_a_variable_that_is_empty_counts_as_not_set():
    env = {"CLUSTER_BACKEND": "", "CLUSTER_RUNS": "", "CLUSTER_MAX_RANKS": ""}
    assert settings.text("CLUSTER_BACKEND", env) == "auto" and settings.text("CLUSTER_RUNS", env) == ""
    assert settings.given("CLUSTER_RUNS", env) == "" and settings.given("CLUSTER_STATE", env) is None
    assert settings.whole_number("CLUSTER_MAX_RANKS", env=env) == 0
    assert settings.whole_number("CLUSTER_MAX_RANKS", env={"CLUSTER_MAX_RANKS": "12"}) == 12


def test_what_is_missing_or_not_listed_says_so():
    with pytest.raises(settings.SettingError, match="CLUSTER_RANK"):
        settings.required("CLUSTER_RANK", {})
    with pytest.raises(LookupError, match=r"'CLUSTER_RANKS'.*CLUSTER_BACKEND"):
        settings.text("CLUSTER_RANKS", {})


@pytest.mark.parametrize(
    "name, value, unit, read",
    [("CLUSTER_MAX_RANKS", value, "ranks", local.max_ranks) for value in ("many", "0", "-1", "2.5", "1e3")]
    + [("CLUSTER_MAX_RESULT", "1 GB", "bytes", results.cap)],
)
def test_a_wrong_number_is_named_with_its_variable_and_the_unit(name, value, unit, read, monkeypatch):
    monkeypatch.setenv(name, value)
    with pytest.raises(errors.OptionValueError) as caught:
        read()
    assert f"{name}={value!r}" in caught.value.what and unit in caught.value.next_step
