"""Sphinx configuration: Markdown pages by MyST, docstrings by numpydoc, nothing from the network."""

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_extensions"))

from numpydoc.xref import DEFAULT_LINKS
from public_names import (
    canonical_names,
    documented_methods,
    documented_properties,
    enumeration_members,
    guide_of,
    inherited_methods,
    public_classes,
)

import skprivate

project = "skprivate"
author = "The skprivate developers"
copyright = "2026, the skprivate developers"
release = version = skprivate.__version__
extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.intersphinx",
    "sphinx_codeautolink",  # names in code blocks
    "sphinx_copybutton",
    "sphinx_gallery.gen_gallery",
    # Ours, in _extensions.
    "code_links",
    "mathml",
    "offline",
    "table_breaks",
]
sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "backreferences_dir": "generated/backreferences",
    "doc_module": ("skprivate",),
    "within_subsection_order": "gallery_order.place",
    "minigallery_sort_order": "gallery_order.place",
    "abort_on_example_error": True,
    "reset_modules": ("matplotlib", "picture_style.set_style"),
    "download_all_examples": False,
    "remove_config_comments": True,
    "show_memory": False,
    "show_signature": False,
    "write_computation_times": False,  # its pages load scripts from the network
}
# Gallery scripts say once that an integer random_state is a simulation; the warning would name the machine's folders.
warnings.filterwarnings("ignore", category=skprivate.SimulatedNoiseWarning)
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
exclude_patterns = ["_build", "examples"]
templates_path = ["_templates"]
# `name` in docstrings: a link where it is ours or in an inventory, else code.
default_role = "py:obj"
# Cut and committed by tools/cut_inventories.py: nothing is fetched.
intersphinx_mapping = {
    "numpy": ("https://numpy.org/doc/stable/", "_inventories/numpy.inv"),
    "pandas": ("https://pandas.pydata.org/docs/", "_inventories/pandas.inv"),
    "sklearn": ("https://scikit-learn.org/stable/", "_inventories/sklearn.inv"),
}
intersphinx_disabled_reftypes = ["std:*"]  # their terms and headings only by name: numpy:array_like
myst_enable_extensions = ["amsmath", "colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3

autosummary_generate = True
autosummary_context = {  # for _templates/autosummary/class.rst
    "documented_methods": {name: documented_methods(name) for name in public_classes()},
    "documented_properties": {name: documented_properties(name) for name in public_classes()},
    "inherited_methods": {name: inherited_methods(name) for name in public_classes()},
    "enumeration_members": {name: enumeration_members(name) for name in public_classes()},
    "guides": {name: guide_of(name) for name in canonical_names()},
}
codeautolink_concat_default = True  # the blocks of a page run in order, in one namespace
autodoc_typehints = "none"  # types stand in the docstrings
toc_object_entries = False
numpydoc_show_class_members = False
# Of the words of a type, arrays, frames and our classes become links; Python's own, as "int", do not.
numpydoc_xref_param_type = True
numpydoc_xref_ignore = "all"
numpydoc_xref_aliases = {
    **{word: word for word, link in DEFAULT_LINKS.items() if "python:" in link},
    **{name.rpartition(".")[2]: name for name in [*reversed(public_classes()), "pandas.DataFrame"]},
    "array-like": ":term:`array-like <numpy:array_like>`",
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True

html_theme = "furo"
html_title = f"skprivate {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_sphinx = False
html_copy_source = False
html_context = {"description": "Machine learning with differential privacy and the interface of scikit-learn"}
