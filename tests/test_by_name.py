"""Registries import what is asked for, and only that."""

import subprocess
import sys

import pytest

from kvdocs.by_name import ByName
from kvdocs.drills.registry import DRILLS
from kvdocs.widgets.registry import WIDGETS
from kvdocs.widgets.widget import Widget


def test_each_widget_stands_under_its_own_name():
    assert all(widget.name == name for name, widget in WIDGETS.items())


def test_each_drill_stands_under_its_own_id():
    assert all(drill.id == name for name, drill in DRILLS.items())


def test_a_place_with_something_else_is_an_error():
    wrong = ByName(Widget, "kvdocs.widgets", {"heads": "registry:WIDGETS"})
    with pytest.raises(TypeError, match=r"kvdocs\.widgets\.registry:WIDGETS is no Widget"):
        wrong["heads"]


def test_the_registries_alone_import_no_widget_and_no_drill():
    code = (
        "import sys, kvdocs.widgets.registry, kvdocs.drills.registry;"
        "print([name for name in sys.modules if name.startswith('kvdocs.drills.lesson.')"
        " or name == 'kvdocs.widgets.heads'])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
