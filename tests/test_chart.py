"""Charts: a specification in the page, drawn by the build in both widths, fetching nothing."""

import importlib.util
import json
import re

import pytest

from kvdocs.widgets.chart import Chart, rows
from kvdocs.widgets.registry import WIDGETS


@pytest.fixture(scope="module")
def hook(request):
    path = request.config.rootpath / "overrides" / "charts.py"
    spec = importlib.util.spec_from_file_location("overrides_charts", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


LINE = Chart(
    {
        "data": rows(x=(1, 2, 3), y=(5, 2, 9)),
        "mark": {"type": "line", "color": "var(--kv-first)", "clip": True},
        "encoding": {
            "x": {"field": "x", "type": "quantitative"},
            "y": {"field": "y", "type": "quantitative", "title": 'a < b & "c"'},
        },
    },
    'Rises > falls & "rises".',
)


def svgs(output):
    return re.findall(r'<svg data-fit="(\w+)"[^>]* viewBox="0 0 (\d+) (\d+)"', output)


def test_the_build_draws_a_chart_for_each_width(hook):
    output = hook.draw_charts(f"<main>{LINE.element()}</main>")
    assert svgs(output) == [("wide", "760", "320"), ("narrow", "300", "320")]
    assert output.startswith('<main><div class="kv-chart" role="img"')
    assert output.endswith("</svg></div></main>")


def test_the_drawing_takes_its_colours_from_the_style_sheet(hook):
    output = hook.draw_charts(str(LINE.element()))
    drawn = output.partition("<svg")[2]
    colours = set(re.findall(r'(?:fill|stroke)="([^"]+)"', drawn))
    assert "var(--kv-first)" in colours
    named = {colour for colour in colours if not colour.startswith("var(")}
    assert named <= {"none", "transparent"}


def test_two_charts_of_a_page_share_no_id(hook):
    output = hook.draw_charts(f"{LINE.element()}<p>between</p>{LINE.element()}")
    ids = re.findall(r'\bid="([^"]+)"', output)
    assert len(ids) >= 4
    assert len(set(ids)) == len(ids)
    assert set(re.findall(r"url\(#([^)]+)\)", output)) == set(ids)


def test_text_of_a_specification_stays_text(hook):
    output = hook.draw_charts(str(LINE.element()))
    assert "a &lt; b &amp; " in output.partition("<svg")[2]
    assert 'aria-label="Rises &gt; falls &amp; &quot;rises&quot;."' in output


def test_a_page_without_a_chart_is_left_alone(hook):
    page = "<main><div class='kv-chart'>no specification</div></main>"
    assert hook.draw_charts(page) == page


def test_the_browser_draws_with_the_versions_the_build_draws_with(hook, request):
    vl_convert = pytest.importorskip("vl_convert")
    pins = json.loads((request.config.rootpath / "package.json").read_text())["dependencies"]
    assert pins["vega-lite"].rpartition(".")[0] == hook.VEGA_LITE
    assert pins["vega"] == vl_convert.get_vega_version()


def test_rows_of_unequal_columns_are_refused():
    with pytest.raises(ValueError, match="shorter"):
        rows(x=(1, 2), y=(1,))


@pytest.mark.parametrize(
    "name", [n for n in WIDGETS if "kv-chart" in str(WIDGETS[n].view().picture)]
)
def test_every_chart_of_a_widget_is_pure_inline_and_labelled(name, hook):
    html = str(WIDGETS[name].view().picture)
    assert html == str(WIDGETS[name].view().picture)
    assert '"url":' not in html.replace("&quot;", '"')
    label = re.search(r'class="kv-chart" role="img" aria-label="([^"]+)"', html)[1]
    assert len(label) > 40
    assert len(svgs(hook.draw_charts(html))) == 2
