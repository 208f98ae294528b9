"""SVG and HTML elements as text."""

from html import escape


def element(tag: str, *children: str, **attributes: object) -> str:
    """One element; a trailing underscore of an attribute is dropped, others become hyphens. Children are markup."""
    shown = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(_text(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    return f"<{tag}{shown}>{''.join(children)}</{tag}>"


def text(content: str, x: float, y: float, class_: str, anchor: str | None = None) -> str:
    return element("text", escape(content), x=x, y=y, class_=class_, text_anchor=anchor)


def tooltip(content: str) -> str:
    """Shown by browsers while the pointer rests on the parent element."""
    return element("title", escape(content))


def path(points: list[tuple[float, float]], class_: str, *children: str) -> str:
    moves = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
    return element("path", *children, d=f"M{moves}", class_=class_)


def drawing(width: float, height: float, label: str, *children: str) -> str:
    """A drawing that scales with its column."""
    return element(
        "svg",
        *children,
        viewBox=f"0 0 {width:g} {height:g}",
        role="img",
        aria_label=label,
        xmlns="http://www.w3.org/2000/svg",
    )


def _text(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
