"""Sphinx's settings for the book. Nothing is executed, and no page loads anything from another host."""

import sys
from importlib.resources import files
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for `mathml`, next to this file

project = "From Convolution to Cluster"
language = "en"
author = "the authors of From Convolution to Cluster"
copyright = f"{author}; texts and figures CC BY 4.0, code MIT"

extensions = ["myst_nb", "mathml"]
nb_execution_mode = "off"
nb_ipywidgets_js = {}  # widget scripts would come from a CDN, and a lecture's saved outputs need none
nb_merge_streams = True
myst_enable_extensions = ["dollarmath", "amsmath", "attrs_block"]
myst_heading_anchors = 3
html_math_renderer = "mathml"

html_theme = "sphinx_book_theme"
html_title = project
# Browsers draw large sums and tall brackets only with a mathematical font; this one comes with ziamath (OFL).
html_static_path = ["static", str(files("ziamath") / "fonts" / "STIXTwoMath-Regular.ttf")]
html_css_files = ["book.css"]
html_js_files = [(name, {"defer": "defer"}) for name in ("guess.js", "explore.js")]
html_last_updated_fmt = None
html_copy_source = True
html_use_index = False
html_context = {"default_mode": "auto"}
html_show_sphinx = False
html_sidebars = {"**": ["search-button-field.html", "sbt-sidebar-nav.html"]}
html_theme_options = {
    "use_fullscreen_button": False,
    "use_download_button": True,
    "show_toc_level": 2,
    "home_page_in_toc": True,
    "navbar_persistent": [],  # no search here, because it is above the contents
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
