# The commands people use. `make` alone lists them. VENV=... names another environment (conda: VENV=$CONDA_PREFIX).
VENV ?= .venv
PY := $(VENV)/bin/python
export VENV
export PATH := $(abspath $(VENV))/bin:$(PATH)
export TF_CPP_MIN_LOG_LEVEL ?= 3
unexport PYTHONDONTWRITEBYTECODE  # hundreds of processes of the tests would each compile the package again
WORKERS ?= 2# of `make test`; 0: in one process, for a debugger
ROOT_FLAG := $(shell [ "$$(id -u)" = 0 ] && echo --allow-root)

.DEFAULT_GOAL := help
.PHONY: help setup setup-book setup-slides setup-test lab demo drill test test-all verify lint format lectures book slides experiments claims exercises mutants exploits student doctor slurm slurm-stop hub hub-stop test-hub roster-there setup-hub setup-slurm bench lock audit clean

help:  ## list these commands
	@echo "From Convolution to Cluster"
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

lab: setup  ## build the environment if it is missing and open JupyterLab at the course's start page
	exec jupyter lab $(ROOT_FLAG) --ServerApp.root_dir="$(CURDIR)" $(LAB_ARGS)

demo: setup  ## the whole cycle without a browser: release, three submissions, jobs on two ranks, scores
	$(PY) -m cluster.staff demo

test: setup-test  ## lint, unit tests, jobs on a real Slurm; one lecture; release and a few submissions of each assignment
	@$(MAKE) --no-print-directory lint
	$(PY) -m pytest -n $(WORKERS) --dist loadgroup --no-loadscope-reorder $(PYTEST_ARGS)

test-all: setup-test  ## the same with every lecture, incorrect solution, forged submission and attack: for a nightly run, before a release
	CLUSTER_TEST_ALL=1 $(MAKE) --no-print-directory test

verify: setup-test  ## execute a lecture and grade all submissions of its assignment: UNIT=07 (default: what has changed)
	$(PY) -m tests.verify $(UNIT)

drill: setup-test  ## grade a class of 100 on a real Slurm while a node and the coordinator are killed (needs root)
	CLUSTER_DRILL=$(or $(STUDENTS),100) $(PY) -m pytest tests/grading/test_drill.py -k killed -s

mutants: setup  ## grade unsolved assignments, solutions and mutants; print the mutation results
	$(PY) -m cluster.staff mutants

exploits: setup  ## grade attacks on the autograder; print the result of each
	$(PY) -m tests.attacks

lectures: setup  ## regenerate and execute the lectures from lectures/text
	$(PY) lectures/build.py $(LECTURE)

book: setup-book  ## build the site of the executed lectures, for reading: build/book/index.html
	$(PY) lectures/book

slides: setup-slides  ## build slides of all lectures, or of one (LECTURE=03): build/slides/index.html
	$(PY) lectures/slides $(LECTURE)

experiments: setup  ## make the lectures' recorded runs that are missing (RUN=08: of one lecture; takes hours)
	$(PY) lectures/experiments.py $(RUN)

claims: setup  ## print the claims table, and write it to lectures/CLAIMS.md
	$(PY) lectures/claims.py

exercises: setup  ## regenerate the students' release from solutions/
	$(PY) -m cluster.staff release

student: setup  ## write the folder student/ for your class, without solutions and hidden tests
	$(PY) -m cluster.staff student $(if $(AFTER),--after $(AFTER))

doctor: setup  ## check what jobs use here: TensorFlow, Horovod, Gloo, MPI, Slurm, disk space
	$(PY) -m cluster doctor

slurm: setup-slurm  ## a real Slurm on this machine: four nodes with two GPUs each (needs root)
	$(PY) -m cluster.staff.one_machine_slurm start

slurm-stop:  ## stop exactly what `make slurm` started; its database and queue are kept
	$(PY) -m cluster.staff.one_machine_slurm stop

HUB_WORDS = $(if $(STATE),--state "$(STATE)") $(if $(ROSTER),--roster "$(ROSTER)") $(HUB_ARGS)
hub: roster-there setup-hub  ## the course on a JupyterHub of this machine: ROSTER=people.csv STATE=FOLDER (needs root)
	$(PY) -m cluster.staff.hub start $(HUB_WORDS)

hub-stop:  ## stop exactly what `make hub` started (with the same STATE), servers of students too; all files are kept
	$(PY) -m cluster.staff.hub stop $(if $(STATE),--state "$(STATE)") $(HUB_ARGS)

test-hub: setup-test  ## test a class in a browser on a real hub, under load, with injected faults (needs root)
	CLUSTER_TEST_HUB=1 CLUSTER_TEST_HUB_SLURM=1 $(PY) -m pytest -m hub $(PYTEST_ARGS)

bench: setup-test  ## measure the overhead of the course's tools: PART=jobs (tests/bench/README.md)
	$(PY) -m tests.bench $(PART) $(BENCH_ARGS)

setup:  ## build the environment if it is missing, nothing more (GPU=1: for GPUs)
	@cluster/setup.sh

setup-book:
	@cluster/setup.sh book

setup-slides:
	@cluster/setup.sh slides

roster-there:  # before minutes go into an environment
	@[ "$$(id -u)" = 0 ] || { echo "Only root can start the hub: sudo make hub ROSTER=people.csv"; exit 1; }
	@[ -z "$(ROSTER)" ] || [ -r "$(ROSTER)" ] || { echo "ROSTER=$(ROSTER) does not exist or cannot be read."; exit 1; }
	@for python in "$(PY)" python3 python3.11 python3.12 /usr/bin/python3; do \
	    "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || continue; \
	    "$$python" -m cluster.staff.hub start --check $(HUB_WORDS); exit; \
	done

setup-hub:
	@cluster/setup.sh hub $(if $(findstring --slurm,$(HUB_ARGS)),slurm)

setup-slurm:
	@cluster/setup.sh slurm

setup-test:
	@cluster/setup.sh test

lint:  ## check style, types, the order of imports, unused code and the size of the code
	@ruff check .
	@ruff format --check .
	@mypy
	@lint-imports --no-logo
	@! vulture | grep '^cluster/.*unused' | grep -v 'unused attribute'
	@$(PY) -m tests.size

format:  ## format the code and the notebooks' paired scripts
	@ruff check --fix .
	@ruff format .

# Horovod's two have no fix and do not concern jobs: SECURITY.md.
audit: setup  ## compare all pinned packages with the public data on vulnerabilities (needs a network)
	@if $(PY) -c 'import urllib.request as u; u.urlopen("https://pypi.org/pypi/horovod/json", timeout=20)' 2>/dev/null; \
	then $(PY) -m venv build/audit && build/audit/bin/pip --quiet install pip-audit && \
	    build/audit/bin/pip-audit --strict --disable-pip --no-deps -r constraints.txt \
	    --ignore-vuln CVE-2024-10190 --ignore-vuln CVE-2026-31234; \
	else echo "Skipped: the data on vulnerabilities is at pypi.org, which cannot be reached from here."; fi

lock: setup  ## resolve the ranges of pyproject.toml again: constraints.txt, environment.yml
	$(PY) cluster/staff/pins.py

clean:  ## remove the environment and caches; grades, submissions and runs are kept
	rm -rf $(VENV) build *.egg-info .pytest_cache .ruff_cache .mypy_cache .import_linter_cache
