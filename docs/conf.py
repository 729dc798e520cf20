"""Sphinx configuration: Markdown pages by MyST, docstrings by numpydoc."""

import skprivate

project = "skprivate"
author = "The skprivate developers"
release = version = skprivate.__version__
extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx_copybutton",
]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build"]
myst_enable_extensions = ["dollarmath", "amsmath"]
myst_heading_anchors = 3
autosummary_generate = True
numpydoc_show_class_members = False
numpydoc_xref_param_type = False
html_theme = "furo"
html_title = "skprivate"
