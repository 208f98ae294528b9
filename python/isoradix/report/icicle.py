"""The tree as an icicle: a box for each node, as wide as its subtree is heavy and as tall as the node is long."""

import math
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from isoradix import NodeInfo
from isoradix.report.scale import fitted, human
from isoradix.report.svg import drawing, element, text, tooltip

_WIDTH, _HEIGHT = 1240.0, 420.0
_LEFT, _TOP, _BOTTOM = 58.0, 4.0, 8.0
_NARROWEST = 1.2
_SHADES = 6


@dataclass
class _Box:
    """A node, with the tokens of its subtree as weight."""

    depth: int
    length: int
    hits: int
    sequence: int
    weight: int
    children: list["_Box"] = field(default_factory=list)


@dataclass(frozen=True)
class TreeShape:
    """Figures of a tree, and its boxes."""

    nodes: int
    leaves: int
    tokens: int
    deepest: int
    leaf_median: int
    root: _Box
    # (depth, branches that reach it), falling
    width: list[tuple[int, int]]


def shape_of(walk: Iterable[NodeInfo]) -> TreeShape:
    """Reads a whole tree; the walk leaves the root out and may come in any order."""
    nodes = sorted(walk, key=lambda node: node.depth)
    root = _Box(0, 0, 0, 0, 0)
    boxes = {int(node.handle): _Box(node.depth, node.length, node.hits, node.sequence, node.length) for node in nodes}
    for node in reversed(nodes):
        parent = boxes.get(int(node.parent), root)
        parent.weight += boxes[int(node.handle)].weight
        parent.children.append(boxes[int(node.handle)])
    leaves = sorted(node.length for node in nodes if not node.children)
    return TreeShape(
        nodes=len(nodes),
        leaves=len(leaves),
        tokens=root.weight,
        deepest=nodes[-1].depth if nodes else 0,
        leaf_median=leaves[len(leaves) // 2] if leaves else 0,
        root=root,
        width=_width(nodes),
    )


def _width(nodes: list[NodeInfo]) -> list[tuple[int, int]]:
    """How many branches hold a token at each depth, as steps."""
    changes: dict[int, int] = defaultdict(int)
    for node in nodes:
        changes[node.depth - node.length] += 1
        changes[node.depth] -= 1
    steps, running = [], 0
    for depth in sorted(changes):
        running += changes[depth]
        steps.append((depth, running))
    return steps


class Icicle:
    """Draws one tree; depth on a square-root scale, so that the shared top stays readable."""

    def __init__(self, shape: TreeShape) -> None:
        self._root = shape.root
        self._deepest = max(shape.deepest, 1)
        self._parts: list[str] = []

    def draw(self) -> str:
        self._ticks()
        pending = [(self._root, _LEFT, _WIDTH - _LEFT)]
        while pending:
            box, left, width = pending.pop()
            if box.length:
                self._node(box, left, width)
            pending.extend(self._children(box, left, width))
        return drawing(_WIDTH, _HEIGHT, "the tree, one box for each node", *self._parts)

    def _down(self, depth: float) -> float:
        return _TOP + math.sqrt(depth / self._deepest) * (_HEIGHT - _TOP - _BOTTOM)

    def _ticks(self) -> None:
        for depth, shown in fitted(0, self._deepest).ticks:
            level = self._down(depth)
            self._parts.append(element("line", x1=_LEFT - 5, x2=_WIDTH, y1=level, y2=level, class_="grid"))
            self._parts.append(text(shown, _LEFT - 9, level + 5, "tick", "end"))

    def _children(self, box: _Box, left: float, width: float) -> list[tuple[_Box, float, float]]:
        """Splits the width by weight, heaviest first; what is too narrow to see becomes one pale box."""
        placed = []
        total = sum(child.weight for child in box.children)
        ranked = sorted(box.children, key=lambda child: (-child.weight, child.sequence))
        for index, child in enumerate(ranked):
            share = width * child.weight / total
            if share < _NARROWEST:
                self._rest(ranked[index:], left, box.depth, width / total)
                break
            placed.append((child, left, share))
            left += share
        return placed

    def _node(self, box: _Box, left: float, width: float) -> None:
        tip = (
            f"{box.length:,} tokens, depth {box.depth:,}\n{box.hits:,} hits, {len(box.children):,} children\n"
            f"subtree {box.weight:,} tokens"
        )
        shade = min(max(box.hits, 1).bit_length() - 1, _SHADES - 1)
        self._box(left, width, box.depth - box.length, box.depth, f"node h{shade}", tip)

    def _rest(self, boxes: list[_Box], left: float, top: int, width_of_token: float) -> None:
        tokens = sum(box.weight for box in boxes)
        depth = top + sum(box.weight * box.length for box in boxes) / max(tokens, 1)
        tip = f"{len(boxes):,} narrow branches, together {human(tokens)} tokens"
        self._box(left, tokens * width_of_token, top, depth, "node rest", tip)

    def _box(self, left: float, width: float, top: float, bottom: float, class_: str, tip: str) -> None:
        upper, lower = self._down(top), self._down(bottom)
        gap = 0.6 if width > 3 else 0.0
        self._parts.append(
            element(
                "rect",
                tooltip(tip),
                x=left,
                y=upper,
                width=max(width - gap, 0.4),
                height=lower - upper,
                class_=class_,
            )
        )
