"""A cell that runs in Jupyter's kernel runs in the sandbox, with the same outputs."""

import copy
import os
import re

import nbformat
import pytest
from nbclient import NotebookClient

from cluster.staff.engine import Limits

from .sandboxes import PatientEngine, cell, need

# {what a cell does: its source}. The cells run in one notebook, in this order.
CELLS = {
    "print": "print('a', flush=True)\nprint('b', end='')\nprint('c')",
    "pause": "from time import sleep\n\ndef pause(): sleep(0.3)  # until Jupyter has read its pipes",
    "result": "1 + 1",
    "no result": "1 + 1;",
    "standard error": "import sys\nprint('x')\nprint('y', file=sys.stderr)\nprint('z')",
    "write": "sys.stdout.write('written\\n')",
    "writelines": "sys.stdout.writelines(['a\\n', 'b\\n'])",
    "write of bytes": "sys.stdout.write(b'a')",
    "buffer": "sys.stdout.buffer.write(b'a')",
    "reconfigure": "sys.stdout.reconfigure(line_buffering=True)",
    "kind of stream": "(sys.stdout.isatty(), sys.stdout.encoding, sys.stdout.closed, sys.stdout.name)",
    "abilities": "(sys.stdout.writable(), sys.stdout.readable(), sys.stdout.seekable(), sys.stderr.errors)",
    "class": "type(sys.stdout).__mro__[-5:]",
    "read": "sys.stdout.read()",
    "faulthandler": "import faulthandler\nfaulthandler.enable()\nfaulthandler.disable()",
    "file number": "isinstance(sys.stdout.fileno(), int) and isinstance(sys.stderr.fileno(), int)",
    "process": "import subprocess\nsubprocess.run(['echo', 'from a process'], check=True)\npause()",
    "process with stdout": "subprocess.Popen(['true'], stdout=sys.stdout, stderr=sys.stderr).wait()",
    "captured process": "subprocess.run(['echo', 'a'], capture_output=True, text=True).stdout",
    "process on stderr": "subprocess.run('echo error >&2', shell=True).returncode\npause()",
    "os.system": "import os\nos.system('echo from the shell')\npause()",
    "os.write": "os.write(1, b'raw\\n')\npause()",
    "shell escape": "!echo escaped",
    "shell list": "files = !echo one two\nfiles",
    "sx": "%sx echo three",
    "C code": "import ctypes\nlibc = ctypes.CDLL(None)\nlibc.puts(b'from C')\nlibc.fflush(None)\npause()",
    "fork": "pid = os.fork()\nif not pid:\n    print('child')\n    os._exit(0)\n"
    "os.waitpid(pid, 0)[1]\npause()",
    "env": "%env COURSE=convolution\nos.environ['COURSE']",
    "env of a process": "!echo $COURSE",
    "time": "%%time\nx = sum(range(10))",
    "timeit": "t = %timeit -n 1 -r 1 -o -q x\nt.loops",
    "capture": "%%capture caught\nprint('held')\n1 + 1",
    "captured": "(caught.stdout, len(caught.outputs))",
    "capture_output": "from IPython.utils.capture import capture_output\nwith capture_output() as c:\n"
    "    print('a')\nc.stdout",
    "redirect": "import contextlib\nwith contextlib.redirect_stdout(sys.stderr):\n    print('redirected')",
    "redirect to text": "import io\nwith contextlib.redirect_stdout(io.StringIO()) as f:\n"
    "    print('a')\nf.getvalue()",
    "replaced stream": "old, sys.stdout = sys.stdout, io.StringIO()\nprint('lost')\nsys.stdout = old",
    "display": "from IPython.display import HTML, Markdown, clear_output, display, update_display\n"
    "display(HTML('<b>b</b>'))",
    "several displays": "display(1, 'two', Markdown('3'))",
    "display and print": "print('before')\ndisplay(2)\nprint('after')",
    "display handle": "handle = display('first', display_id=True)\nprint('between')\nhandle.update('second')",
    "named display": "display('a', display_id='mine')\nupdate_display('b', display_id='mine')",
    "handle": "handle = display(display_id='other')\nhandle.display('shown')",
    "clear": "print('gone')\nclear_output()\nprint('kept')",
    "clear and wait": "print('gone')\nclear_output(wait=True)\nprint('kept')",
    "clear and write": "os.write(1, b'gone')\npause()\nclear_output(wait=True)\n"
    "os.write(1, b'kept')\npause()",
    "clear twice": "print('gone')\nclear_output()\nos.write(1, b'kept')\npause()\nprint('too')",
    "clear at the end": "print('kept')\nclear_output(wait=True)",
    "own repr": "class Own:\n    def _repr_html_(self): return '<i>own</i>'\nOwn()",
    "broken repr": "class Broken:\n    def __repr__(self): raise ValueError('no repr')\nBroken()",
    "publish": "from IPython.display import publish_display_data\n"
    "publish_display_data({'text/plain': 'raw'})",
    "input": "input('name? ')",
    "getpass": "import getpass\ngetpass.getpass()",
    "error": "1 / 0",
    "error after output": "print('before')\nraise KeyError('missing')",
    "syntax": "def (",
    "exit of a script": "sys.exit(1)",
    "assertion": "assert 1 == 2, 'not equal'",
    "interrupt": "raise KeyboardInterrupt",
    "logging": "import logging\nlogging.basicConfig(stream=sys.stdout, force=True)\n"
    "logging.warning('logged')",
    "logging to stderr": "logging.basicConfig(force=True)\nlogging.warning('logged')",
    "warnings": "import warnings\nwarnings.simplefilter('error')\nwarnings.warn('raised')",
    "no warnings": "warnings.simplefilter('ignore')\nwarnings.warn('ignored')",
    "tqdm": "from tqdm import tqdm\nfor _ in tqdm(range(3), disable=True): pass",
    "tqdm of notebooks": "from tqdm.notebook import tqdm as bar\nfor _ in bar(range(3), disable=True): pass",
    "tqdm that chooses": "from tqdm.autonotebook import tqdm as chosen\nchosen.__module__",
    "figure": "%matplotlib inline\nimport matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.show()",
    "figure without show": "plt.plot([1, 2]);",
    "figure options": "%config InlineBackend.figure_format = 'svg'\nplt.rcParams['figure.dpi'] > 0",
    "kernel": "kernel = get_ipython().kernel\n(kernel.implementation, kernel.language_info['name'])",
    "execution count": "kernel.execution_count == get_ipython().execution_count",
    "parent": "parent = kernel.get_parent()\n"
    "(parent['header']['msg_type'], get_ipython().parent_header == parent['header'])",
    "session": "(len(kernel.session.session) > 10, kernel.session.username != '', "
    "kernel.shell is get_ipython())",
    "kernel of the shell": "(type(get_ipython()).__mro__[-2].__name__, "
    "'IPKernelApp' in get_ipython().config)",
    "which shell": "'ZMQInteractiveShell' in [c.__name__ for c in type(get_ipython()).__mro__]",
    "user names": "kernel.shell.user_ns is globals() or kernel.shell.user_ns['x']",
    "widget": "import ipywidgets\nslider = ipywidgets.IntSlider(value=3)\nslider.value += 1\nslider.value",
    "comm": "from ipykernel.comm import Comm\nmade = Comm(target_name='course')\n"
    "made.send({'a': 1})\nmade.close()",
    "comm manager": "'course' in kernel.comm_manager.targets",
    "events": "seen = []\nget_ipython().events.register('post_run_cell', lambda r: seen.append(r.success))",
    "after the event": "seen",
    "output history": "1 + 2\n_",
    "Out": "sorted(k for k in Out)[0] > 0",
    "In": "In[-1]",
    "run_cell": "get_ipython().run_cell('nested = 3').success",
    "ex": "get_ipython().ex('given = 4')\ngiven",
    "magic": "get_ipython().run_line_magic('pwd', '') == os.getcwd()",
    "cell magic": "%%writefile made.py\nmade = 5",
    "run": "%run made.py",
    "after run": "made",
    "bash": "%%bash\necho from bash",
    "script": "%%script python3\nprint('from a script')",
    "python": "%%python\nprint('from python')",
    "who": "%who_ls Own",
    "autoreload": "%load_ext autoreload\n%autoreload 2",
    "help": "len?",
    "source": "import inspect\ndef shown(): return 1\ninspect.getsource(shown)",
    "docstring": "shown.__module__, __name__",
    "await": "import asyncio\nawait asyncio.sleep(0)\n'awaited'",
    "thread": "import threading\nt = threading.Thread(target=lambda: print('in a thread'))\n"
    "t.start()\nt.join()",
    "pprint": "from pprint import pprint\npprint({'a': 1})",
    "traceback": "import traceback\ntry:\n    1 / 0\nexcept ZeroDivisionError:\n"
    "    traceback.print_exc(limit=0)",
    "atexit": "import atexit\natexit.register(print, 'at exit') and None",
    "flush": "sys.stdout.flush()\nsys.stderr.flush()",
    "hook": "old_hook = sys.displayhook\nsys.displayhook.__class__.__mro__[-1]",
    "last error": "sys.last_type.__name__",
    "signal": "import signal\nsignal.getsignal(signal.SIGINT) is signal.default_int_handler",
    "file": "__file__",
    "main": "__import__('__main__').x",
    "numpy": "import numpy as np\nnp.arange(3)",
    "table": "np.array([[1.5, 2]])",
    "multiprocessing": "import multiprocessing as mp\nwith mp.get_context('fork').Pool(2) as pool:\n"
    "    print(pool.map(abs, [-1, 2]))",
    "executor": "from concurrent.futures import ThreadPoolExecutor\nwith ThreadPoolExecutor(2) as e:\n"
    "    print(*e.map(abs, [-1, 2]))",
    "bytes written twice": "for i in range(3):\n    os.write(1, b'raw ')\n"
    "    os.write(2, b'error ')\npause()",
    "null": "with open(os.devnull, 'w') as null, contextlib.redirect_stdout(null):\n    print('nothing')",
    "dup": "copy = os.dup(1)\nos.write(copy, b'to a copy\\n')\nos.close(copy)\npause()",
    "same descriptor": "sys.__stdout__.fileno(), os.fstat(1).st_mode > 0",
    "terminal size": "import shutil\nshutil.get_terminal_size()",
    "std input": "sys.stdin.read()",
    "exit": "shown.__qualname__",
}
# Jupyter sends these in parts or in another order, or with other numbers.
UNORDERED = re.compile(r"0x[0-9a-f]+|\d+(\.\d+)?(e\+\d+)? *(ns|us|[µμ]s|ms|s)\b|/tmp/ipykernel_\d+/\d+\.py")


def outputs(node):
    """Return what a cell has shown, without what differs from run to run: the streams' texts, "
    "then the rest."""
    streams, rest = {}, []
    for output in node.outputs:
        if output.output_type == "stream":
            streams[output.name] = streams.get(output.name, "") + UNORDERED.sub("…", output.text)
        elif output.output_type == "error":
            rest.append(("error", output.ename, UNORDERED.sub("…", output.evalue)))
        else:
            texts = {
                kind: UNORDERED.sub("…", str(text)) if kind.startswith("text") else ""
                for kind, text in output.data.items()
            }
            rest.append((output.output_type, texts))
    return streams, rest


@pytest.fixture(scope="module")
def both(tmp_path_factory):
    """{what a cell does: (its outputs in Jupyter, its outputs in the sandbox)}."""
    need()
    notebook = nbformat.v4.new_notebook(cells=[cell(text) for text in CELLS.values()])
    check = cell("assert x == 45", "check", locked=True, grade=True, points=2)
    with PatientEngine(workers=1, limits=Limits(cell=60, check=20)) as engine:
        verdict = engine.grade(nbformat.v4.new_notebook(cells=[*copy.deepcopy(notebook).cells, check]))
    assert verdict.outcome == "graded" and verdict.checks["check"].score == 2, verdict.checks["check"]
    for each in notebook.cells:
        each.source += "\nimport time as _wait; _wait.sleep(0.3)" * each.source.startswith(
            ("import subp", "os.")
        )
    client = NotebookClient(
        notebook,
        allow_errors=True,
        timeout=60,
        resources={"metadata": {"path": str(tmp_path_factory.mktemp("jupyter"))}},
    )
    environment = dict(os.environ, PYTHONWARNINGS="ignore")
    environment.pop("PYTEST_CURRENT_TEST", None)  # with it, Jupyter does not read the file descriptors
    client.execute(env=environment)
    return dict(zip(CELLS, zip(notebook.cells, verdict.notebook.cells, strict=False), strict=False))


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_does_in_the_sandbox_what_it_does_in_jupyter(both, name):
    """Are a cell's texts, results, displays and errors in the sandbox the same as in Jupyter's own kernel?"""
    real, ours = map(outputs, both[name])
    assert ours == real
