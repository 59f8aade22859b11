"""Programs that stand in for real ones, such as Slurm's commands."""

from pathlib import Path


def commands(folder, **scripts):
    """Create executables with these lines of sh in a folder; `_` in a name means `-`, None removes one."""
    folder.mkdir(exist_ok=True)
    for name, script in scripts.items():
        path = Path(folder, name.replace("_", "-"))
        path.unlink(missing_ok=True)
        if script is not None:
            path.write_text(f"#!/bin/sh\n{script}\n")
            path.chmod(0o755)
