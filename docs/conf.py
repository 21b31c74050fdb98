"""How the pages are built: ``sphinx-build -W --keep-going -b html docs docs/_build/html``."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "_sphinx"))
os.environ.setdefault("MPLBACKEND", "Agg")
for name in ("cyipopt", "blomodel"):  # they tell of every evaluation, or of every solve
    logging.getLogger(name).setLevel(logging.WARNING)

import blomodel as bm  # noqa: E402 - after the path is set

project = "blomodel"
author = "The blomodel developers"
copyright = author
release = version = bm.__version__

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx_gallery.gen_gallery",
    "sphinx_copybutton",
    "mathml",  # the rest is in _sphinx/
    "generated_parts",
    "pictures",
]
exclude_patterns = ["_build", "_sphinx", "**/sg_execution_times.rst", "sg_execution_times.rst"]

# --- Markdown ------------------------------------------------------------------------------------
myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 3

# --- The reference -------------------------------------------------------------------------------
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_use_type_comments = False
python_maximum_signature_line_length = 88
napoleon_use_ivar = True
napoleon_google_docstring = False

# --- The gallery ---------------------------------------------------------------------------------
GROUPS = [
    "first_steps",
    "markets",
    "networks",
    "machine_learning",
    "inverse",
    "control",
    "robust",
    "methods",
]
sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    # reproduce/ has no header and so is no group: it takes hours, needs data, and has a page of its own
    "gallery_dirs": "generated/gallery",
    "filename_pattern": r"\.py$",
    "subsection_order": [f"../examples/{group}" for group in GROUPS],
    "within_subsection_order": "gallery_order.ReadingOrder",
    "thumbnail_size": (480, 320),  # drawn at half the size, sharp on fine screens
    "download_all_examples": False,
    "show_memory": False,
    "show_signature": False,
    "remove_config_comments": True,
    "abort_on_example_error": True,
}

# --- Looks ---------------------------------------------------------------------------------------
html_theme = "furo"
html_title = "blomodel"
html_static_path = ["static"]
html_css_files = ["blomodel.css"]
html_math_renderer = "mathml"
html_show_sourcelink = False
copybutton_exclude = ".linenos, .gp"

# What users construct themselves; objects of other classes are returned to them.
CONSTRUCTED = {"Lower", "Nash", "BilevelProblem", "BilevelCV", "sigmoid"}


def hide_constructors(app, what, name, obj, options, signature, return_annotation):  # noqa: ANN001, ANN201
    """Show the arguments of those classes only that users call."""
    if what == "class" and name.rpartition(".")[2] not in CONSTRUCTED:
        return "", None
    return None


def setup(app):  # noqa: ANN001, ANN201
    """Register what is told above."""
    app.connect("autodoc-process-signature", hide_constructors)
