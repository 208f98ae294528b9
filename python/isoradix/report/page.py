"""The frame of every page: title, figures in tiles, drawings, tables, and where it was measured."""

from collections.abc import Sequence
from html import escape
from importlib.resources import files

from isoradix.report.machine import machine
from isoradix.report.svg import element


class Page:
    """Collects parts, then gives one self-contained document."""

    def __init__(self, title: str, lead: str, command: str) -> None:
        self._title = title
        heading = element("h1", escape(title)) + element("p", escape(lead), class_="lead")
        self._parts = [element("header", heading, element("code", escape(command), class_="command"))]

    def heading(self, content: str) -> None:
        self._parts.append(element("h2", escape(content)))

    def tiles(self, figures: Sequence[tuple[str, str]]) -> None:
        """(name, value) pairs, the value large."""
        tiles = (
            element("div", element("b", escape(value)), element("span", escape(name)), class_="tile")
            for name, value in figures
        )
        self._parts.append(element("div", *tiles, class_="tiles"))

    def figures(self, *drawn: str) -> None:
        self._parts.append(element("div", *drawn, class_="figures"))

    def table(self, header: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """The first column reads left, the others right."""
        head = element("thead", element("tr", *(element("th", escape(name), scope="col") for name in header)))
        lines = (element("tr", *(element("td", escape(cell)) for cell in row)) for row in rows)
        self._parts.append(element("div", element("table", head, element("tbody", *lines)), class_="scroll"))

    def part(self, markup: str) -> None:
        """Whatever has no method of its own."""
        self._parts.append(markup)

    def html(self, version: str) -> str:
        style = files("isoradix.report").joinpath("style.css").read_text(encoding="utf-8")
        head = (
            '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
            + element("title", escape(self._title))
            + element("style", style)
        )
        foot = element("footer", escape(f"isoradix {version}. {machine()}."))
        body = element("body", element("main", *self._parts, foot))
        return f'<!doctype html>\n<html lang="en"><head>{head}</head>{body}</html>\n'


def figure(title: str, note: str, drawn: str, wide: bool = False) -> str:
    """A drawing with its caption above it."""
    caption = element("figcaption", element("b", escape(title)), element("span", escape(note)))
    return element("figure", caption, drawn, class_="wide" if wide else None)
