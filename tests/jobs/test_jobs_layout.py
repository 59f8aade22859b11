"""Rules for the modules of `jobs` and the packages that it uses: the file names of a run."""

import ast
import re
from pathlib import Path

from cluster.jobs.run.run_folder import RunFolder

ROOT = Path(__file__).resolve().parents[2]

# the file names in recorded runs
FILES = """lock run.json code.py call.pkl job.sh job.log backend.json seen.json interrupted.json cancel.json
end.json timeline.json rank-3.json ready-3.json error-3.json out-3.log metrics-3.jsonl result-3.json
result-3.npz rendezvous-77.0.json attempts/3 round-3 round.json"""


def test_a_run_folder_names_the_files_as_they_are_recorded():
    """Does RunFolder use the file names that recorded runs have? The names are repeated here on purpose."""
    run = RunFolder(Path("/runs/train-0123456789ab"))
    paths = [run.lock, run.run_json, run.code, run.call, run.script, run.job_log, run.backend, run.seen]
    paths += [run.interrupted, run.cancel, run.end, run.timeline]
    of_ranks = (run.rank, run.ready, run.error, run.log, run.metrics, run.result, run.arrays)
    paths += [path(3) for path in of_ranks]
    paths += [run.rendezvous("77.0"), run.attempt(3), run.round(3), run.round_json]
    assert [str(p.relative_to(run.path)) for p in paths] == FILES.split()


def test_what_lies_in_a_folder_is_listed_in_order(tmp_path):
    for name in ("attempts/10", "attempts/2", "round-10", "round-9", "round-9/0", "round-9/12", "round-9/3"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("metrics-1.jsonl", "metrics-0.jsonl", "result-0.json", "result-0.npz", ".result-1.json.7"):
        (tmp_path / name).touch()
    for name in ("code.py", "seen.json", "rank-0.json", "end.json"):
        (tmp_path / name).touch()
    run = RunFolder(tmp_path)
    assert [p.name for p in run.attempts()] == ["2", "10"]
    assert list(run.rounds()) == [9, 10]
    assert list(RunFolder(run.round(9)).items()) == [0, 3, 12]
    assert not RunFolder(run.round(1)).items()
    assert [p.name for p in run.all_metrics()] == ["metrics-0.jsonl", "metrics-1.jsonl"]
    hashed = ["code.py", "metrics-0.jsonl", "metrics-1.jsonl", "result-0.json", "result-0.npz"]
    assert list(run.hashes()) == hashed
    left = ["rank-0.json", "result-0.json", "result-0.npz", "seen.json"]
    assert [p.name for p in run.left_behind()] == left


def texts(path):
    """Yield (line, text) for each string of a module; in f-strings, each value is replaced with 0."""
    tree = ast.parse(path.read_text())
    joined = [n for n in ast.walk(tree) if isinstance(n, ast.JoinedStr)]
    parts = {id(v) for n in joined for v in n.values}
    for node in joined:
        yield node.lineno, "".join(v.value if isinstance(v, ast.Constant) else "0" for v in node.values)
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.lineno, node.value


NAME = re.compile(
    r"(?:\S*/)?(?:(?:run|backend|seen|interrupted|cancel|end|timeline|round)\.json|code\.py|call\.pkl"
    r"|job\.(?:sh|log)|(?:rank|error|ready|rendezvous)-\S*\.json|\.?out-\S*\.log"
    r"|\.?(?:metrics|result|round)-\S*)"
)


def test_the_names_in_a_run_folder_are_spelt_in_one_module():
    """Do the file names of a run folder occur only in strings of run_folder.py, and not in other modules?"""
    ours = ROOT / "cluster/jobs"
    results = []
    for path in set((ROOT / "cluster").rglob("*.py")) - {ours / "run/run_folder.py"}:
        also = ("lock", "attempts") if path.is_relative_to(ours) else ()  # too common elsewhere
        spelt = [(line, t) for line, t in texts(path) if NAME.fullmatch(t) or t in also]
        results += [f"{path.relative_to(ROOT)}:{line}: {t}" for line, t in spelt]
    assert not results
