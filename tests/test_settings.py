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
    rows = [(str(p.relative_to(PACKAGE)), *r) for p in PACKAGE.rglob("*.py") if p != TABLE for r in reads(p)]
    assert not rows


def test_a_variable_that_is_empty_counts_as_not_set():
    env = {"CLUSTER_BACKEND": "", "CLUSTER_RUNS": "", "CLUSTER_DATA": "/data"}
    assert [settings.text(f"CLUSTER_{n}", env) for n in ("BACKEND", "RUNS", "DATA")] == ["auto", "", "/data"]
    assert settings.given("CLUSTER_RUNS", env) == "" and settings.given("CLUSTER_STATE", env) is None
    assert settings.whole_number("CLUSTER_MAX_RANKS", env=env) == 0
    assert settings.whole_number("CLUSTER_MAX_RANKS", env={"CLUSTER_MAX_RANKS": "12"}) == 12


def test_what_is_missing_or_not_listed_says_so():
    with pytest.raises(settings.SettingError, match="CLUSTER_RANK is not set"):
        settings.required("CLUSTER_RANK", {})
    with pytest.raises(LookupError, match="'CLUSTER_RANKS' is not one of the settings CLUSTER_BACKEND, "):
        settings.text("CLUSTER_RANKS", {})


@pytest.mark.parametrize("value", ["many", "0", "-1", "2.5", "1e3"])
def test_a_wrong_number_is_named_with_its_variable_and_the_remedy(value, monkeypatch):
    monkeypatch.setenv("CLUSTER_MAX_RANKS", value)
    with pytest.raises(errors.OptionValueError) as caught:
        local.max_ranks()
    assert caught.value.what == f"CLUSTER_MAX_RANKS={value!r} is not valid."
    assert "a whole number, 1 or more (ranks)" in caught.value.next_step


def test_the_limit_of_results_is_a_number_of_bytes(monkeypatch):
    monkeypatch.delenv("CLUSTER_MAX_RESULT", raising=False)
    assert results.cap() == 268_435_456
    monkeypatch.setenv("CLUSTER_MAX_RESULT", "1 GB")
    with pytest.raises(errors.OptionValueError, match=r"CLUSTER_MAX_RESULT='1 GB'(.|\n)*bytes"):
        results.cap()
