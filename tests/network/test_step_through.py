"""In JupyterLab: does the slider step through an all-reduce, using only the keyboard?"""

import pytest
from nbformat.v4 import new_code_cell, new_notebook, writes

from .. import ROOT
from ..browser import browser, kernel_ready, needs_browser
from ..pages.servers import TOKEN, serving

pytestmark = [needs_browser, pytest.mark.servers]

CELL = """\
from cluster.network import draw, sums

def ring(comm, x):
    rank, p = comm.rank, comm.size
    chunks = [x[i * len(x) // p : (i + 1) * len(x) // p] for i in range(p)]
    right, left = (rank + 1) % p, (rank - 1) % p
    for step in range(p - 1):
        received = comm.sendreceive(chunks[(rank - step) % p], right, left)
        comm.add(chunks[(rank - step - 1) % p], received)
    for step in range(p - 1):
        comm.sendreceive(chunks[(rank + 1 - step) % p], right, left, into=chunks[(rank - step) % p])

draw.step_through(sums.chunk_history(ring, 4))"""
PICTURE = "() => document.querySelector('.jp-OutputArea .jupyter-widgets img')?.src"


def test_a_slider_steps_through_the_chunks(tmp_path):
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    work = tmp_path / "work"
    work.mkdir()
    (work / "steps.ipynb").write_text(writes(new_notebook(cells=[new_code_cell(CELL)], metadata=kernel)))
    (tmp_path / "home").mkdir()
    extensions = {"cluster.pages": True, "jupyterlab": True}
    with serving(work, tmp_path / "home", extensions) as server, browser(1200, 900) as page:
        page.goto(f"{server.url}lab/tree/steps.ipynb?reset&token={TOKEN}")
        kernel_ready(page)
        page.locator(".jp-Notebook .jp-CodeCell").first.click()
        page.keyboard.press("Shift+Enter")
        slider = page.get_by_role("slider")
        slider.wait_for()
        seen = []
        for step in range(7):
            page.wait_for_function(
                f"before => {{ const now = ({PICTURE})(); return now && now !== before; }}",
                arg=seen[-1] if seen else None,
            )
            assert float(slider.get_attribute("aria-valuenow")) == step
            seen.append(page.evaluate(PICTURE))
            if step == 3:
                (ROOT / "build" / "screens").mkdir(parents=True, exist_ok=True)
                page.screenshot(path=ROOT / "build" / "screens" / "step_through.png")
            slider.focus()
            page.keyboard.press("ArrowRight")
        assert len(set(seen)) == 7  # 2 (p - 1) steps, and the initial state
