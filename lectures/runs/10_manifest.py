"""Check lecture 10's manifest for Kubernetes against published schemas: python lectures/runs/10_manifest.py

The script installs kubernetes-validate, which contains the JSON schemas of Kubernetes' API, into a separate
environment (from the package index). It validates 10_kubernetes.yaml, and manifests with one error each,
which must be rejected. 10_manifest.json contains {"verdicts": [{"changed", "kind", "error"}]}, with None for
accepted documents, the SHA-256 of the manifest and of this script, the command, date and versions. A schema
checks only names and types, so the manifest has not been run on a cluster. The script takes half a minute.
"""

import argparse
import datetime
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile
import venv

from cluster.jobs.run import provenance
from cluster.system import files

HERE = pathlib.Path(__file__).parent
MANIFEST = HERE / "10_kubernetes.yaml"
PACKAGE, KUBERNETES = "kubernetes-validate==1.37.0", "1.37"
WRONG = [  # a line and its replacement
    ("completions:", "completion:"),
    ("completions: 2", 'completions: "two"'),
    ("restartPolicy", "restart"),
    ("parallelism: 2", "parallelism: [2]"),
    ("containers:", "container:"),
    ("batch/v1", "batch/v7"),
]
CHECK = """
import json, sys
import kubernetes_validate as k, yaml
found = []
for document in yaml.safe_load_all(sys.stdin):
    try:
        k.validate(document, sys.argv[1], strict=True)
        error = None
    except (k.ValidationError, k.SchemaNotFoundError) as e:
        error = e.message
    found.append([document["kind"], error])
print(json.dumps(found))
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=HERE / "10_manifest.json")
    out = parser.parse_args().out
    text, verdicts = MANIFEST.read_text(), []
    with tempfile.TemporaryDirectory(prefix="manifest-") as folder:
        venv.create(folder, with_pip=True)
        python = pathlib.Path(folder) / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", PACKAGE], check=True)
        for before, after in [("", ""), *WRONG]:
            changed = text.replace(before, after, 1) if before else text
            asked = [python, "-c", CHECK, KUBERNETES]
            done = subprocess.run(asked, input=changed, capture_output=True, text=True, check=True)
            for kind, error in json.loads(done.stdout):
                error = error and error.splitlines()[0][:160]
                verdicts.append({"changed": before and f"{before} → {after}", "kind": kind, "error": error})
    record = {"verdicts": verdicts, "manifest": hashlib.sha256(text.encode()).hexdigest()}
    record["versions"] = provenance.versions() | {"schemas": PACKAGE, "kubernetes": KUBERNETES}
    record["sha256"] = provenance.code_digest(pathlib.Path(__file__).read_text(encoding="utf-8"))
    record["command"] = "python lectures/runs/10_manifest.py"
    record["date"] = datetime.date.today().isoformat()
    files.write(out, json.dumps(record, indent=1, ensure_ascii=False) + "\n")
    print(f"{out}: {len(verdicts)} documents")


if __name__ == "__main__":
    sys.exit(main())
