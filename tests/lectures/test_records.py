"""Each record is of its script: made by its current code, from a commit, on a named machine."""

import json
import re

import pytest

from cluster.jobs.run.provenance import code_digest

from .definitions import RUNS, recorded

RECORDS = sorted(path.stem for path in RUNS.glob("*.json"))
OF_VARIANTS = {"08_large_batches"}  # each run names the digest of its variant: test_lecture_08.py
OF_A_SCHEMA = {"10_manifest"}  # verdicts that depend on no machine, recorded before the script was committed


@pytest.mark.parametrize("name", RECORDS)
def test_a_record_is_of_its_script(name):
    """Is the digest in the record, or in each of its jobs, that of the script? Were all made from committed
    code, on a named processor, and is the record free of a machine's paths?
    """
    record = recorded(name)
    jobs = next((record[key] for key in ("jobs", "runs") if isinstance(record.get(key), list)), [record])
    script = code_digest((RUNS / f"{name}.py").read_text(encoding="utf-8"))
    digests = {record.get("sha256", record.get("script"))} - {None} or {job["script"] for job in jobs}
    assert digests == {script} or name in OF_VARIANTS
    for job in jobs:
        if name not in OF_A_SCHEMA:
            assert re.fullmatch(r"[0-9a-f]{12}", job["versions"]["cluster"]) and job["machine"]["cpu"]
    assert not re.search(r"/(tmp|srv|home|root|work)/", json.dumps(record))
