"""Places for the nodes of a graph, in layers from top to bottom.

1. A node stands as low as those that read it let it: sizes are worked out beside their use.
2. An edge over several layers gets a point in each, unless it is so long that it would only push
   others aside.
3. Within a layer nodes are ordered by the middle of their neighbours, down and up a few times.
4. Each moves below (then above, and again) the mean of those that it hangs on, as far as those
   beside it let it: the closest such places in the sense of least squares, which pooling
   neighbours that collide finds exactly.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

FAR = 48  # layers; an edge over more of them has no points on its way
SWEEPS = 6
NODE, POINT = 1.0, 0.22  # the room that a node and the point of an edge take
MIDDLE = 0.6  # how much a branching is drawn to the middle; a neighbour draws by 4


class Layout:
    """`x`, `layer` by node, and `paths`: the places of an edge's points, by edge."""

    def __init__(self, count: int, edges: Sequence[tuple[int, int]]) -> None:
        self.count = count
        self.edges = list(dict.fromkeys((a, b) for a, b in edges if a != b))
        self.layer = _layers(count, self.edges)
        self.x: list[float] = []
        self._points()
        self._order()
        self._place()
        self.paths = {
            edge: [(self.x[p], self.layer[p]) for p in points] for edge, points in self._of.items()
        }
        self.x, self.layer = self.x[:count], self.layer[:count]

    def _points(self) -> None:
        """The points on the way of long edges become nodes of their own behind the real ones."""
        self._of: dict[tuple[int, int], list[int]] = {}
        size = self.count
        below: list[list[int]] = [[] for _ in range(size)]
        above: list[list[int]] = [[] for _ in range(size)]
        for a, b in self.edges:
            chain = [a]
            span = self.layer[b] - self.layer[a]
            if 1 < span <= FAR:
                chain += range(size, size + span - 1)
                size += span - 1
                self.layer += range(self.layer[a] + 1, self.layer[b])
                below += [[] for _ in range(span - 1)]
                above += [[] for _ in range(span - 1)]
            chain.append(b)
            self._of[a, b] = chain[1:-1]
            if span <= FAR:
                for one, other in zip(chain, chain[1:]):
                    below[one].append(other)
                    above[other].append(one)
        self._above, self._below, self._size = above, below, size

    def _order(self) -> None:
        rows: list[list[int]] = [[] for _ in range(max(self.layer, default=-1) + 1)]
        for node in _in_depth(self._size, self._above, self._below):
            rows[self.layer[node]].append(node)
        place = [0.0] * self._size
        self.rows = rows
        self._number(place)
        for sweep in range(SWEEPS):
            down = sweep % 2 == 0
            beside = self._above if down else self._below
            for row in rows if down else reversed(rows):
                middle = {n: _median([place[m] for m in beside[n]], place[n]) for n in row}
                row.sort(key=middle.__getitem__)
                for i, node in enumerate(row):
                    place[node] = float(i)

    def _number(self, place: list[float]) -> None:
        for row in self.rows:
            for i, node in enumerate(row):
                place[node] = float(i)

    def _place(self) -> None:
        room = [NODE if n < self.count else POINT for n in range(self._size)]
        x = self.x = [0.0] * self._size
        for row in self.rows:
            at = 0.0
            for node in row:
                x[node] = at - len(row) / 2
                at += room[node] + 0.1
        for sweep in range(2 * SWEEPS):
            down = sweep % 2 == 0
            beside, other = (self._above, self._below) if down else (self._below, self._above)
            for row in self.rows if down else reversed(self.rows):
                wanted, weights = [], []
                for node in row:
                    near = beside[node]
                    pulls = [self._pull(node, m) for m in near]
                    total = sum(pulls)
                    pulled = sum(x[m] * pull for m, pull in zip(near, pulls))
                    if node < self.count and (len(near) != 1 or len(other[near[0]]) > 1):
                        total += MIDDLE  # where it branches: so that the whole stays upright
                    wanted.append(pulled / total if total else x[node])
                    weights.append(total or 0.1)
                gaps = [(room[a] + room[b]) / 2 + 0.08 for a, b in zip(row, row[1:])]
                for node, at in zip(row, spaced(wanted, weights, gaps)):
                    x[node] = at

    def _pull(self, node: int, other: int) -> float:
        """How much a node wants to stand under another: points of an edge and chains are lines."""
        points = (node >= self.count) + (other >= self.count)
        return (4.0, 0.3, 8.0)[points]


def spaced(wanted: Sequence[float], weights: Sequence[float], gaps: Sequence[float]) -> list[float]:
    """The places nearest to the wanted ones that keep the order, with these gaps at least."""
    offset = [0.0]
    for gap in gaps:
        offset.append(offset[-1] + gap)
    blocks: list[tuple[float, float, int]] = []  # mean, weight, how many
    for want, weight, off in zip(wanted, weights, offset):
        block = (want - off, weight, 1)
        while blocks and blocks[-1][0] > block[0]:
            mean, heavy, count = blocks.pop()
            both = heavy + block[1]
            block = ((mean * heavy + block[0] * block[1]) / both, both, count + block[2])
        blocks.append(block)
    means = [mean for mean, _, count in blocks for _ in range(count)]
    return [mean + off for mean, off in zip(means, offset)]


def _layers(count: int, edges: Iterable[tuple[int, int]]) -> list[int]:
    """As low as possible; what comes from nowhere stands above all. Edges go to larger numbers."""
    below: list[list[int]] = [[] for _ in range(count)]
    above = [0] * count
    for a, b in edges:
        below[a].append(b)
        above[b] += 1
    height = [0] * count
    for node in range(count - 1, -1, -1):
        height[node] = max((height[m] + 1 for m in below[node]), default=0)
    top = max(height, default=0)
    return [top - h for h in height]


def _in_depth(size: int, above: list[list[int]], below: list[list[int]]) -> list[int]:
    """All nodes, branch after branch, so that what belongs together starts side by side."""
    order: list[int] = []
    seen = [False] * size
    for root in range(size):
        if above[root] or seen[root]:
            continue
        stack = [root]
        while stack:
            node = stack.pop()
            if seen[node]:
                continue
            seen[node] = True
            order.append(node)
            stack.extend(reversed(below[node]))
    return order + [n for n in range(size) if not seen[n]]


def _median(places: list[float], now: float) -> float:
    if not places:
        return now
    places.sort()
    half = len(places) // 2
    return places[half] if len(places) % 2 else (places[half - 1] + places[half]) / 2
