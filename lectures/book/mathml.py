"""A Sphinx extension: formulas as MathML, which browsers draw themselves, without MathJax or a network."""

from latex2mathml.converter import convert


def inline(writer, node):
    from docutils.nodes import SkipNode

    writer.body.append(convert(node.astext()))
    raise SkipNode


def block(writer, node):
    from docutils.nodes import SkipNode

    # A formula that is wider than the page can be scrolled, also with the keyboard.
    writer.body.append('<div class="formula" tabindex="0" role="group" aria-label="Formula">')
    writer.body.append(convert(node.astext(), display="block"))
    writer.body.append("</div>\n")
    raise SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
