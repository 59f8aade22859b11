"""A damaged record is shown as far as it goes: whatever is missing, no card, page or table raises."""

import json

import pytest

from cluster import jobs
from cluster.jobs import map as map_items
from cluster.jobs import submit
from cluster.jobs.errors import Damaged
from cluster.jobs.find import handle
from cluster.jobs.job import Job
from cluster.jobs.show import watch
from cluster.jobs.sweep import Sweep

from . import programs

WRONG = (..., None, [], {}, "?", -1.5, True, 10**400)  # ...: the field is removed


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The folders of a job that logged and failed, and of a sweep."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLUSTER_RUNS", str(tmp_path_factory.mktemp("recorded")))
        patch.setenv("CLUSTER_BACKEND", "local")
        job = submit(programs.logs_and_fails, 3).wait(progress=False)
        sweep = map_items(programs.scaled, [1.0, 2.0]).wait(progress=False)
        yield job.folder, sweep.folder


def fields(record):
    """Yield (path to a field, its container) at the first two levels of a record."""
    for name, value in record.items():
        yield name, record
        if isinstance(value, dict):
            yield from ((inside, value) for inside in value)


def show(folder):
    """Show a folder in all ways."""
    found = handle(folder)
    texts = [
        found._repr_html_(),
        repr(found),
        str(found.status.what),
        str(found.error()),
        repr(jobs(folder=folder.parent)),
    ]
    if isinstance(found, Sweep):
        texts += [found.table().to_string(), watch.view([watch.Source(found[i]) for i in range(len(found))])]
        return texts
    source = watch.Source(found)
    source.look()
    return [
        *texts,
        watch.view([source], 10),
        repr(found.timeline()),
        found.logs(),
    ]


@pytest.mark.parametrize("file", ["run.json", "end.json", "rank-0.json", "metrics-0.jsonl"])
def test_whatever_field_is_missing_a_job_is_shown(recorded, file):
    path = recorded[0] / file
    original = path.read_text()
    try:
        *before, last = original.splitlines() if file.endswith("jsonl") else [original]
        for wrong in WRONG:
            for i in range(len(list(fields(json.loads(last))))):
                record = json.loads(last)
                name, container = list(fields(record))[i]
                container[name] = wrong
                if wrong is ...:
                    del container[name]
                path.write_text("\n".join([*before, json.dumps(record)]) + "\n")
                assert all(show(recorded[0])), (file, name, wrong)
    finally:
        path.write_text(original)


def test_whatever_field_is_missing_a_sweep_is_shown(recorded):
    path = recorded[1] / "run.json"
    original = path.read_text()
    try:
        for name in json.loads(original):
            record = json.loads(original)
            del record[name]
            path.write_text(json.dumps(record))
            found = handle(recorded[1])
            assert all(x is not None for x in show(recorded[1])) and len(found) == 2, name
    finally:
        path.write_text(original)


def test_lines_that_are_no_metrics_are_left_out(recorded):
    path = recorded[0] / "metrics-0.jsonl"
    original = path.read_text()
    try:
        path.write_text('{"step"\n[1]\n"a"\n\n\x00\n' + original + '{"step": 9}\n')
        (path.parent / "metrics-notes.jsonl").write_text("{}\n")
        source = watch.Source(Job(recorded[0]))
        source.look()
        assert source.curves.ranks[0].step == 9
    finally:
        path.write_text(original)


def test_a_record_that_is_no_object_is_named(recorded):
    path = recorded[0] / "run.json"
    original = path.read_text()
    try:
        path.write_text("[]")
        with pytest.raises(Damaged, match=r"run\.json"):
            handle(recorded[0])
    finally:
        path.write_text(original)
