"""A fake Slurm for tests of submissions: it accepts a job, runs it at once, and lists it."""

import fcntl
import os
import re
import subprocess
import sys
import time
from pathlib import Path

name, words = Path(sys.argv[0]).name, sys.argv[1:]
state = Path(os.environ["STANDIN"])
if name == "sbatch":
    array = re.search(r"--array=([\d-]+)", Path("job.sh").read_text())
    first, _, last = array[1].partition("-") if array else ("", "", "")
    tasks = range(int(first), int(last or first) + 1) if array else [""]
    time.sleep(0.6)  # as with a busy controller
    with open(state / "accepted", "a") as f:
        fcntl.flock(f, fcntl.LOCK_EX)
        number = 1 + len((state / "accepted").read_text().splitlines())
        f.write(f"{number}|{os.getcwd()}|{' '.join(map(str, tasks))}\n")
    for task in tasks:
        env = os.environ | {"SLURM_JOB_ID": str(number), "SLURM_PROCID": "0", "SLURM_TASKS_PER_NODE": "1"}
        env["SLURM_ARRAY_TASK_ID"] = str(task)
        log = words[words.index("--output") + 1].replace("%a", str(task))
        run = f"bash job.sh >>'{log}' 2>&1; touch {state}/ended-{number}-{task}"
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.Popen(["bash", "-c", run], env=env, start_new_session=True, **quiet)
    print(number)
elif name == "srun":
    words = [w for w in words if not w.startswith("--")]
    os.execvp(words[0], words)
elif name == "squeue" and (state / "accepted").exists():
    for line in (state / "accepted").read_text().splitlines():
        number, place, tasks = line.split("|")
        for task in tasks.split() or [""]:
            if not (state / f"ended-{number}-{task}").exists():
                print(f"{number}{'_' * bool(task)}{task}|RUNNING|None|short|{place}")
elif name == "scontrol":
    print("Slurmctld(primary) is UP" if words == ["ping"] else "")
