#!/usr/bin/env bash
# Builds the course's environment in $VENV (default .venv): system packages, Python packages, Horovod.
#   cluster/setup.sh         what the course needs
#   cluster/setup.sh slurm   and what `make slurm` needs: Slurm, its accounting's database
#   cluster/setup.sh hub     and what `make hub` needs: JupyterHub, its proxy (hub slurm: with a Slurm)
#   cluster/setup.sh book    and what `make book` needs: Sphinx
#   cluster/setup.sh slides  and what `make slides` needs: reveal.js, what the book needs
#   cluster/setup.sh test    and what `make test` needs: both, a real Slurm, the test tools
# With GPU=1 it is an environment for GPUs: TensorFlow with CUDA, Horovod with NCCL (cluster/staff/GPU.md).
# An environment is either for CPUs or for GPUs and cannot be changed later. Each finished step leaves a
# stamp with a hash of its inputs, so a second run repeats only what is missing or has changed.
set -uo pipefail
cd "$(dirname "$0")/.."
want=" ${*:-course} "
hub= slurm= slides=
case $want in *" hub "* | *" test "*) hub=yes ;; esac
case $want in *" slides "* | *" test "*) slides=yes ;; esac
case $want in *" slurm "* | *" test "*) slurm=yes ;; esac
VENV=${VENV:-.venv}
gpu=
[ -e "$VENV/for-gpus" ] && gpu=yes
case ${GPU:-} in
    "") ;;
    1) gpu=yes ;;
    *) echo "GPU=$GPU is unknown. Set GPU=1 for GPUs, or leave it unset for CPUs." >&2; exit 1 ;;
esac
course_packages="python3-venv python3-dev build-essential cmake libopenmpi-dev openmpi-bin dataset-fashion-mnist"
[ -d cluster/staff ] && course_packages="$course_packages bubblewrap uidmap"  # submissions are graded here, but not in what students get
npm_packages=
command -v node >/dev/null || npm_packages="$npm_packages nodejs"
command -v npm >/dev/null || npm_packages="$npm_packages npm"
slurm_packages="slurm-wlm slurmdbd munge mariadb-server-core mariadb-client-core"
test_packages="postgresql"
command -v chromium >/dev/null || test_packages="$test_packages chromium"  # for the tests of pages

bold() { if [ -t 1 ]; then printf '\033[1m%s\033[0m\n' "$*"; else printf '%s\n' "$*"; fi; }
digest() { sha256sum | cut -c1-12; }

# Only an environment that this script made may be remade. Others (of conda, for example) are only extended.
mine=$VENV/made-by-setup
foreign=; [ -x "$VENV/bin/python" ] && [ ! -e "$mine" ] && foreign=yes

mkdir -p "$VENV/steps" "$VENV/logs" || exit
exec 9>"$VENV/steps/.lock"
flock -n 9 || { echo "Waiting for another set-up of $VENV, which is running."; flock 9; }

# --- ownership of the environment ----------------------------------------------------------------------
# The environment's programs name its folder, so one that was made elsewhere must be remade and the old one
# deleted, but never one that another clone has made and can still reach. `.venv` may be a link into that
# clone, or VENV may name a folder shared by several clones. `made-by-setup` contains who made it, and under
# which name.
here=$(pwd -P)
environment=$(cd "$VENV" && pwd -P)
stamp=venv@$(printf '%s\n' "$here" | digest)
remake=  # whether there is something to delete

refuse() {  # refuse WHAT FIX
    local own="the same command with VENV=ANOTHER_FOLDER"
    [ -L "$VENV" ] && own="rm '$VENV' (it is a link), and the same command again"
    printf '%s\nNothing was changed. For a separate environment in this folder, run %s.%s\n' "$1" "$own" "$2" >&2
    exit 1
}

if [ -e "$mine" ] && [ ! -e "$VENV/steps/$stamp" ]; then
    maker= named= finished= inside=
    { read -r maker; read -r named; } <"$mine"
    if [ -z "$named" ]; then  # an older set-up wrote down nothing, but Python did
        named=$(sed -n 's/^command = .* -m venv //p' "$VENV/pyvenv.cfg" 2>/dev/null)
        for script in setup.sh deploy/setup.sh; do [ -e "${named%/*}/cluster/$script" ] && maker=${named%/*}; done
    fi
    for s in "$VENV/steps/"venv@*; do [ -e "$s" ] && finished=$s; done
    case $environment/ in "$here"/*) inside=yes ;; esac
    if [ "$maker" -ef . ] && [ "$named" -ef "$VENV" ] && [ -n "$finished" ]; then
        mv "$finished" "$VENV/steps/$stamp"  # this folder had the name of a link to it, so there is nothing to do
    elif [ "$maker" -ef . ] || [ -z "$finished$maker" ]; then
        remake=yes  # half made; or made here, and then moved within this folder
    elif [ "$named" -ef "$VENV" ]; then
        refuse "The environment $VENV was made by ${maker:-another folder} and is still found there, as $named." ""
    elif [ -n "$inside" ]; then
        remake=yes  # moved or copied together with this folder, so its old name is gone
        echo "The environment $VENV was made as $named, and its programs contain that name. It is being remade."
    else
        refuse "The environment $VENV was made by ${maker:-another folder} and is outside this folder, so others may use it." \
            " If it is unused, run rm -r '$environment' and then the same command again."
    fi
fi

# Both TensorFlows are one folder of site-packages: with the one installed over the other, neither works.
if [ -n "$gpu" ] && compgen -G "$VENV/lib/python*/site-packages/tensorflow_cpu-*" >/dev/null; then
    echo "The environment $VENV has the TensorFlow for CPUs, and nothing was changed." >&2
    echo "For GPUs make another, in a folder that all nodes see: make setup GPU=1 VENV=ANOTHER_FOLDER" >&2
    exit 1
fi
if [ -n "$gpu" ] && [ ! -r constraints-gpu.txt ]; then
    echo "An environment for GPUs needs constraints-gpu.txt, which is not in what students get: make it in the course's repository." >&2
    exit 1
fi
[ -n "$gpu" ] && touch "$VENV/for-gpus"

step() {  # step STAMP TITLE COMMAND...   STAMP is name@hash, or a name alone: then it leaves no stamp
    local stamp=$1 title=$2 log start=$SECONDS shown=$SECONDS pid
    shift 2
    [ -e "$VENV/steps/$stamp" ] && return
    log=$VENV/logs/${stamp%%@*}.log
    set -m  # a separate process group, in order that Ctrl-C ends pip, apt or the compiler too
    "$@" >"$log" 2>&1 </dev/null &
    pid=$!
    set +m
    trap 'kill -- -$pid 2>/dev/null; wait $pid; printf "\nStopped. The same command resumes here.\n"; exit 130' INT TERM
    while kill -0 $pid 2>/dev/null; do
        if [ -t 1 ]; then
            printf '\r\033[K  … %s (%d s)  %.50s' "$title" $((SECONDS - start)) "$(tail -n 1 "$log" | tr -d '\r')"
        elif [ $((SECONDS - shown)) -ge 30 ]; then
            printf '  … %s (%d s)\n' "$title" $((SECONDS - start)); shown=$SECONDS
        fi
        sleep 0.3
    done
    [ -t 1 ] && printf '\r\033[K'
    if ! wait $pid; then
        printf '\nFailed: %s. The end of its log (%s):\n\n' "$title" "$log" >&2
        tail -n 15 "$log" | sed 's/^/    /' >&2
        printf '\nFix the problem shown above and run the same command again. Finished steps are not repeated.\n' >&2
        exit 1
    fi
    trap - INT TERM
    printf '  ✓ %s (%d s)\n' "$title" $((SECONDS - start))
    [[ $stamp == *@* ]] && rm -f "$VENV/steps/${stamp%%@*}@"* && touch "$VENV/steps/$stamp"
}

# --- system packages: only Debian's are known by name --------------------------------------------------
packages=$course_packages
[ -n "$hub$slides" ] && packages="$packages $npm_packages"
[ -n "$slurm" ] && packages="$packages $slurm_packages"
[ "$want" = " test " ] && packages="$packages $test_packages"
install_packages() {
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086
    apt-get -o DPkg::Lock::Timeout=300 update && apt-get -o DPkg::Lock::Timeout=300 install -y --no-install-recommends $missing
}
if command -v dpkg-query >/dev/null; then
    missing=
    for p in $packages; do
        dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q 'ok installed' || missing="$missing $p"
    done
    if [ -n "$missing" ] && [ "$(id -u)" = 0 ]; then
        step apt "Debian packages:$missing" install_packages
    elif [ -n "$missing" ]; then
        echo "Some Debian packages are missing, and only root can install them: sudo apt-get install$missing"
        echo "Set-up continues. (Without Open MPI, jobs use Gloo. Without slurm-wlm, the Slurm tests cannot run. Without bubblewrap, nothing can be graded in a sandbox. Without the data set, Keras downloads it.)"
    fi
elif [ ! -x "$VENV/bin/python" ]; then
    echo "This system is not Debian. Install a C++ compiler, make, cmake and, optionally, an MPI with mpicxx on PATH."
fi

# --- Python --------------------------------------------------------------------------------------------
# Not the one of a half-made environment, which make has put on PATH and which is about to be removed.
own=$(cd "$VENV" && pwd)/bin
PATH=$(printf '%s' "$PATH" | tr ':' '\n' | grep -vxF "$own" | paste -sd ':')
usable='import os, sys, sysconfig, ensurepip, venv
sys.exit(not ((3, 11) <= sys.version_info[:2] < (3, 13) and os.path.exists(sysconfig.get_path("include") + "/Python.h")))'
if [ -z "$foreign" ] && [ ! -e "$VENV/steps/$stamp" ]; then
    candidates=${PYTHON:-python3.11 python3 python3.12 /usr/bin/python3}
    beside=()  # of uv and pyenv, and installed by hand
    [ -n "${PYTHON:-}" ] || beside=({~/.local,/usr/local}/bin/python3.1[12] ~/.local/share/uv/python/cpython-3.1[12]*/bin/python3 ~/.pyenv/versions/3.1[12].*/bin/python)
    for p in $candidates "${beside[@]}"; do "$p" -c "$usable" 2>/dev/null && { python=$p; break; }; done
    if [ -z "${python:-}" ]; then
        echo "No usable Python among: $candidates" >&2
        for p in $candidates; do newer=$("$p" -c 'import sys; print(*sys.version_info[:2], sep=".") if sys.version_info >= (3, 13) else sys.exit(1)' 2>/dev/null) && break; done
        [ -z "${newer:-}" ] || echo "Python $newer is too new: TensorFlow 2.18 has no wheel for it. Run 'uv python install 3.12' (https://docs.astral.sh/uv/) and the same command again, or use conda with environment.yml." >&2
        echo "Install Python 3.11 or 3.12 with venv and its C headers (Debian 12: apt-get install python3-venv python3-dev)." >&2
        echo "Or name one: PYTHON=/path/to/python3.11 cluster/setup.sh" >&2
        exit 1
    fi
fi

in_use() {  # the processes that run this environment's Python, except those that run this script
    local above=" $$ " pid=$$ exe file
    while pid=$(sed -n 's/^PPid:\t//p' "/proc/$pid/status" 2>/dev/null) && [ "${pid:-0}" -gt 1 ]; do above="$above$pid "; done
    for file in /proc/[0-9]*/cmdline; do
        pid=${file#/proc/} pid=${pid%/cmdline}
        case $above in *" $pid "*) continue ;; esac
        { IFS= read -r -d '' exe <"$file"; } 2>/dev/null || continue
        case $exe in /*) ;; */*) exe=/proc/$pid/cwd/$exe ;; *) continue ;; esac
        [ "${exe%/*}" -ef "$environment/bin" ] && printf '  %s %.100s\n' "$pid" "$(tr '\0' ' ' <"$file" 2>/dev/null)"
    done
    return 0
}
pip() { "$VENV/bin/python" -m pip --disable-pip-version-check "$@"; }
install() {  # install [GROUP,GROUP]: the course, with these groups of optional dependencies
    if [ -n "$gpu" ]; then  # not by the project's own list, which names the TensorFlow for CPUs
        gpu_requirements ",${1:-}," >"$VENV/requirements.txt" || return
        pip install -c constraints.txt -c constraints-gpu.txt -r "$VENV/requirements.txt" &&
            pip install --no-deps -e . || return
    else
        pip install -c constraints.txt -e ".${1:+[$1]}" || return
    fi
    # jsonschema has a second checker of addresses; this one reads a grammar at each import of nbformat: 1.4 s.
    [ -n "$foreign" ] || pip uninstall -y rfc3987-syntax
}
gpu_requirements() {
    "$VENV/bin/python" -c '
import sys, tomllib
from packaging.requirements import Requirement
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
groups = project["optional-dependencies"]
ranges = [p for p in project["dependencies"] if Requirement(p).name not in ("tensorflow", "tensorflow-cpu")]
wanted = [p for name in groups if f",{name}," in sys.argv[1] for p in groups[name]]
print(*ranges, *groups["gpu"], *wanted, sep="\n")' "$1"
}
have_mpi() { command -v mpicxx >/dev/null; }

make_venv() {
    if [ -z "$foreign" ]; then
        [ -n "$remake" ] && rm -rf "$VENV/bin" "$VENV/lib" "$VENV/steps/"*@*  # made in another place, or only half
        case $VENV in /*) named=$VENV ;; *) named=$here/$VENV ;; esac
        printf '%s\n' "$here" "$named" >"$mine" && "$python" -m venv "$VENV" || return
        mkdir -p "$VENV/share/jupyter/lab/settings"  # no question about Jupyter news before the first lecture
        echo '{"@jupyterlab/apputils-extension:notification": {"fetchNews": "false", "checkForUpdates": false},' \
            '"@jupyterlab/apputils-extension:themes": {"adaptive-theme": true}}' \
            >"$VENV/share/jupyter/lab/settings/overrides.json"
    fi
    pip install 'setuptools<70' wheel 'cmake<4' packaging
}
install_course() {
    local mpi=; have_mpi && mpi=mpi
    install $mpi || return
    local settings=$VENV/etc/jupyter/jupyter_server_config.d  # here pip would put them, were the package not editable
    mkdir -p "$settings" && cp cluster/pages/switched_on.json "$settings" || return  # start page and jobs, in every Lab
    [ ! -d cluster/staff ] || cp cluster/staff/class_page/formgrader_policy.json "$settings"
}
install_proxy() { npm install --no-audit --no-fund --prefix "$VENV/proxy" "$(proxy)"; }
proxy() { sed -n 's/^proxy = "\(.*\)".*/\1/p' pyproject.toml; }
install_reveal() { npm install --no-audit --no-fund --ignore-scripts --prefix "$VENV/slides" "$(reveal)"; }
reveal() { sed -n 's/^slides = "\(.*\)".*/\1/p' pyproject.toml; }
# Which CUDA compiles Horovod: NVIDIA's wheels for CUDA 12 have its headers and libraries, and NCCL, but no nvcc.
find_cuda() {
    local major nvcc home release
    major=$(sed -n 's/^nvidia-cuda-runtime-cu\([0-9]*\)==.*/\1/p' constraints-gpu.txt)
    nvcc=$(command -v nvcc)
    for home in "${HOROVOD_CUDA_HOME:-}" "${CUDA_HOME:-}" "${nvcc%/bin/nvcc}" /usr/local/cuda; do
        [ -n "$home" ] && [ -x "$home/bin/nvcc" ] || continue
        release=$("$home/bin/nvcc" --version | sed -n 's/.*release \([0-9.]*\),.*/\1/p')
        [ "${release%%.*}" = "$major" ] && { cuda=$home; return; }
        echo "$home/bin/nvcc is of CUDA ${release:-(it does not say which)}, but this TensorFlow is built for CUDA $major." >&2
        break
    done
    [ -n "${release:-}" ] || echo "No nvcc: Horovod with NCCL cannot be compiled. (Once compiled, it needs none.)" >&2
    echo "Load the modules of CUDA $major (and of MPI, if used) as for the first set-up, or name one: CUDA_HOME=/path/to/cuda-$major" >&2
    exit 1
}
install_horovod() {
    local mpi=0; have_mpi && mpi=1
    pip uninstall -y horovod
    if [ -n "$gpu" ]; then
        local wheels
        wheels=$("$VENV/bin/python" -c 'import nvidia; print(nvidia.__path__[0])') || return
        ln -sf libnccl.so.2 "$wheels/nccl/lib/libnccl.so" || return  # by this name the linker looks for it
        export HOROVOD_GPU_OPERATIONS=NCCL HOROVOD_CUDA_HOME=$cuda HOROVOD_NCCL_LINK=SHARED
        export HOROVOD_NCCL_INCLUDE=$wheels/nccl/include HOROVOD_NCCL_LIB=$wheels/nccl/lib PATH=$cuda/bin:$PATH
        # So that nodes need no CUDA module: the libraries are those that TensorFlow takes.
        export LDFLAGS="-Wl,-rpath,$wheels/cuda_runtime/lib:$wheels/nccl/lib ${LDFLAGS:-}"
    fi
    PATH=$(cd "$VENV/bin" && pwd):$PATH MAKEFLAGS=-j$(nproc) \
    HOROVOD_WITH_TENSORFLOW=1 HOROVOD_WITHOUT_PYTORCH=1 HOROVOD_WITHOUT_MXNET=1 HOROVOD_WITH_GLOO=1 \
    HOROVOD_WITH_MPI=$mpi HOROVOD_WITHOUT_MPI=$((1 - mpi)) \
        pip install -c constraints.txt --no-build-isolation --no-cache-dir "$(sed -n 's/^compiled = \["\(.*\)"\]/\1/p' pyproject.toml)"
}
check() {
    if [ -n "$gpu" ]; then
        TF_CPP_MIN_LOG_LEVEL=3 "$VENV/bin/horovodrun" --check-build || return
    fi
    TF_CPP_MIN_LOG_LEVEL=3 "$VENV/bin/python" -W ignore -c '
import sys, horovod.tensorflow as hvd, keras, tensorflow as tf
assert hvd.gloo_built(), "Horovod was built without Gloo"
mpi = " and MPI" if hvd.mpi_built() else ", without MPI"
if sys.argv[1:]:
    assert tf.test.is_built_with_cuda(), "This TensorFlow is one for CPUs"
    assert hvd.nccl_built(), "Horovod was built without NCCL"
    mpi += ", with NCCL; CUDA " + tf.sysconfig.get_build_info()["cuda_version"]
print(f"TensorFlow {tf.__version__}, Keras {keras.__version__}, Horovod with Gloo" + mpi)' $gpu
}

for_gpus() { [ -z "$gpu" ] || cat constraints-gpu.txt; }
pins=$({ sed -n '/^dependencies/,/^\[tool/p' pyproject.toml | grep -v '^gpu \|^ *#'; cat constraints.txt cluster/pages/switched_on.json cluster/staff/class_page/formgrader_policy.json 2>/dev/null; for_gpus; } | digest)
compiled=$({ grep -hE '^(tensorflow_cpu|tensorflow|horovod)==' constraints.txt; mpicxx --version 2>/dev/null; for_gpus; } | digest)
steps=("$stamp" "course@$pins$compiled" "horovod@$compiled" "check@$pins$compiled")
groups=  # of optional dependencies, in one run of pip
case $want in
    " test ") groups=hub,lti,book,test extra=test title="JupyterHub, Sphinx and test tools" ;;
    *" hub "*) groups=hub,lti extra=hub title=JupyterHub ;;
    " book " | " slides ") groups=book extra=book title="Sphinx, for the book" ;;
esac
[ -n "$groups" ] && steps+=("$extra@$pins")
[ -n "$hub" ] && steps+=("proxy@$(proxy | digest)")
[ -n "$slides" ] && steps+=("reveal@$(reveal | digest)")
for s in "${steps[@]}"; do [ -e "$VENV/steps/$s" ] || todo=yes; done
notebooks() { [ ! -d cluster/staff ] || "$VENV/bin/python" -m cluster.staff.release.twins; }  # of solutions/
[ -n "${todo:-}" ] || { notebooks; exit; }
cuda=
[ -z "$gpu" ] || [ -e "$VENV/steps/horovod@$compiled" ] || find_cuda

# A change of packages breaks the processes that use them: kernels, servers, the ranks of jobs. (Groups only add some.)
changed=
for s in "${steps[@]:0:3}"; do [ -e "$VENV/steps/$s" ] || changed=yes; done
if [ -n "$changed" ] && [ -x "$VENV/bin/python" ] && users=$(in_use) && [ -n "$users" ]; then
    printf '%s\n' "The environment $VENV must be changed, but these processes use it:" "$users" \
        "Nothing was changed. Stop them (jobs: python -m cluster list --active) and run the same command again, or build another environment with VENV=ANOTHER_FOLDER." >&2
    exit 1
fi

bold "Building the environment in $VENV (about 5 minutes; logs in $VENV/logs)"
step "${steps[0]}" "virtual environment" make_venv
step "${steps[1]}" "TensorFlow, JupyterLab, nbgrader and others (downloads about $([ -n "$gpu" ] && echo 3 GB || echo 500 MB))" install_course
step "${steps[2]}" "Horovod, compiled against this TensorFlow (about 3 minutes)" install_horovod
step "${steps[3]}" "Horovod imports and has Gloo${gpu:+, and NCCL}" check
[ -n "$groups" ] && step "$extra@$pins" "$title" install "$groups"
[ -n "$hub" ] && step "proxy@$(proxy | digest)" "JupyterHub's proxy, by npm" install_proxy
[ -n "$slides" ] && step "reveal@$(reveal | digest)" "reveal.js, for the slides, by npm" install_reveal
notebooks || exit
bold "The environment is ready: $("$VENV/bin/python" --version), $(tail -n 1 "$VENV/logs/check.log")"
