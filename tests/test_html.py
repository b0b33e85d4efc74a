from html.parser import HTMLParser

from hypothesis import given
from hypothesis import strategies as st

from kvdocs.html import h, svg


class Reader(HTMLParser):
    """Collects what a browser would see."""

    def __init__(self):
        super().__init__()
        self.tags, self.text, self.attributes = [], "", {}

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.attributes.update(attrs)

    def handle_data(self, data):
        self.text += data


def read(element):
    reader = Reader()
    reader.feed(str(element))
    reader.close()
    return reader


@given(st.text(), st.text(alphabet=st.characters(exclude_characters="\r\n\t")))
def test_no_text_can_become_markup(text, attribute):
    seen = read(h("p", text, title=attribute))
    assert seen.tags == ["p"]
    assert seen.text == text
    assert seen.attributes["title"] == attribute or attribute == ""


def test_a_pasted_script_is_shown_as_text():
    paste = '<script>alert(1)</script><img src=x onerror="alert(1)">'
    assert read(h("div", paste)).tags == ["div"]
    assert str(h("div", paste)) == (
        '<div>&lt;script&gt;alert(1)&lt;/script&gt;&lt;img src=x onerror="alert(1)"&gt;</div>'
    )


def test_attribute_names_follow_html():
    assert str(h("label", for_="x", data_figure="n", hidden=True, id=None, open=False)) == (
        '<label for="x" data-figure="n" hidden></label>'
    )


def test_svg_keeps_its_case():
    assert str(svg("svg", view_box="0 0 1 1", preserve_aspect_ratio="none")) == (
        '<svg viewBox="0 0 1 1" preserveAspectRatio="none"></svg>'
    )


def test_void_elements_have_no_end():
    assert str(h("br")) == "<br>"
