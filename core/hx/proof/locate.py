"""Where a graph that failed its proof goes wrong: the first node, and what was baked into it.

The model is recorded once more, on the inputs that failed, keeping every tensor. Two things come
of it. The tensors are compared with what the rejected file computes on the same inputs, node by
node: the first that is off is where it broke. And the two recordings are laid side by side: a
constant that changed is a size or value that was baked in, and where they stop being alike, a
branch was taken the other way.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .. import registration
from ..errors import ConverterError, HxError
from ..runtime import Refused
from .nodes import NodeTable, check_nodes, record_again

if TYPE_CHECKING:
    import onnx

    from ..contributions import ReferenceKernel
    from ..recording.capture import Capture
    from ..saving.wire import Parts, Weight
    from .verify import Case

MOST = 5  # findings of a kind that are told
SMALL = 16  # elements of a constant that are compared
SHOWN = 4  # and of a list of them that are told
ENDLESS = 2**62  # what a Slice without an end says, that way or the other


def locate(
    captured: Capture,
    parts: Parts,
    path: Path,
    case: Case,
    target: Path | None = None,
    custom_ops: Sequence[Any] = (),
) -> tuple[list[str], list[str], NodeTable | None]:
    """What to tell about a case that failed, most telling first; what of it was baked in; and
    the table of its nodes."""
    options: Any = {"target": target, "custom_ops": custom_ops, "until_off": True}
    table = NodeTable([])
    try:
        table = check_nodes(captured, path, case, **options)
    except Refused:  # it does not run at all: what was baked in may say why
        with contextlib.suppress(HxError, Exception):
            table.parts = record_again(captured, case)[0]
    except ConverterError as error:  # right on the recorded inputs alone
        return [f"on {case.name} inputs, {error.what}; {error.why}"], [], None
    except (HxError, Exception):  # the model need not run twice for its error to be told
        return [], [], None
    baked = [] if table.parts is None else _first(apart(parts, table.parts, case.name))
    row = table.first_off
    whose = "" if row is None else converter(captured, row.target, row.pack)
    told = [table.unseen, *baked, first_off(table, whose)]
    told += [_kernel(each) for each in captured.registry.kernels if row and each.subject == row.op]
    return [text for text in told if text], baked, table if table.rows else None


def baked_sizes(captured: Capture, parts: Parts) -> list[str]:
    """Constants and branches that are others at other sizes, though the proof saw no harm in it."""
    recorded = {name: tensor.shape for name, tensor in captured.prepared.tensors.items()}
    for case in captured.cases:
        if any(tensor.shape != recorded[name] for name, tensor in case.feeds.items()):
            try:
                other = record_again(captured, case)[0]
            except (HxError, Exception):  # only the first recording has to work
                return []
            return _first(apart(parts, other, case.name))
    return []


def _first(told: Iterator[str]) -> list[str]:
    """A few of them, each once: many nodes may read one constant."""
    return list(dict.fromkeys(told))[:MOST]


def converter(captured: Capture, target: str, pack: str) -> str:
    """Who wrote a node, for people: the converter's pack and line."""
    place = captured.registry.place(target, pack, captured.opset)
    return f"converter from {pack or '?'}" + (f" at {place}" if place else "")


def _kernel(kernel: ReferenceKernel) -> str:
    """What ran the node that is off, which may be at fault as well."""
    place = "{}:{}".format(*registration.place(kernel.run))
    return f"or its reference kernel is wrong, which ran it: that of {kernel.pack} at {place}"


def written(captured: Capture, node: onnx.NodeProto) -> str:
    """Who wrote a node that is at fault, and for which call of the model."""
    about = {entry.key: entry.value for entry in node.metadata_props}
    target = about.get("hx.target", "")
    whose = converter(captured, target, about.get("hx.pack", ""))
    return f"the node: {node.op_type} of {target or '?'} at {_line(about)}; {whose}"


def first_off(table: NodeTable, whose: str) -> str:
    """The first node of the file whose result is not the model's."""
    row = table.first_off
    if row is None:
        return ""
    error = f", error {row.max_rel:.1e} where {row.allowed:.1e} is allowed" if row.allowed else ""
    return (
        f"first off: {row.op} of {row.target or '?'} at {row.where}: {row.problem}; "
        f"shape {row.shape}{error}; {whose}"
    )


def apart(parts: Parts, other: Parts, name: str) -> Iterator[str]:
    """Constants that differ between two recordings, up to where the recordings part.

    `name` is that of the inputs that the other was made on.
    """
    import onnx

    seen = set()  # what is told of constants
    weights, others = ({w.proto.name: w for w in each.weights} for each in (parts, other))
    for a, b in zip(parts.graph.node, other.graph.node):
        about = {entry.key: entry.value for entry in a.metadata_props}
        if a.op_type != b.op_type or len(a.input) != len(b.input):
            there = {entry.key: entry.value for entry in b.metadata_props}
            yield (
                f"a branch: at {_line(about)} the recording has {a.op_type}, and on {name} inputs "
                f"{b.op_type} at {_line(there)}"
            )
            return
        given = {attribute.name: attribute for attribute in b.attribute}
        for attribute in a.attribute:
            second = given.get(attribute.name)
            if second is None or attribute == second or attribute.HasField("g"):
                continue
            old, new = map(_plain, map(onnx.helper.get_attribute_value, (attribute, second)))
            if repr(old) != repr(new):  # a NaN is like another
                yield _baked(about, f"{a.op_type}.{attribute.name}", old, new, name)
        for x, y in zip(a.input, b.input):
            old, new = _small(weights.get(x)), _small(others.get(y))
            if old is not None and new is not None and repr(old) != repr(new):
                told = (repr(old), repr(new))
                if about:
                    yield _baked(about, about.get("hx.target", a.op_type), old, new, name)
                elif told not in seen:  # nothing but a copy, since it is what the graph gives
                    has, needs = _beside(old, new)
                    yield f"baked in: {a.output[0]} has {has}, and needs {needs} on {name} inputs"
                seen.add(told)
        if len(a.output) != len(b.output):
            what, place = about.get("hx.target", a.op_type), _line(about)
            yield (
                f"a loop: at {place} {what} gives {len(a.output)} results in the recording, and "
                f"{len(b.output)} on {name} inputs"
            )
            return
    if len(parts.graph.node) != len(other.graph.node):
        yield "a loop: the two recordings have different numbers of nodes"


def _baked(about: dict[str, str], what: str, old: Any, new: Any, name: str) -> str:
    has, needs = _beside(old, new)
    return f"baked in at {_line(about)}: {what} has {has}, and needs {needs} on {name} inputs"


def _beside(old: Any, new: Any) -> tuple[str, str]:
    """Two constants as they are read; where that leaves out what differs, they are told by that."""
    at = ""
    while _brief(old) == _brief(new) and isinstance(old, list) and len(old) == len(new):
        place = next(i for i, (a, b) in enumerate(zip(old, new)) if repr(a) != repr(b))
        old, new, at = old[place], new[place], f"{at}[{place}]"
    shape, other = _shape(old), _shape(new)
    if max(len(shape), len(other)) > 1:  # all of its numbers would tell nobody anything
        where = f" at {at}" if at else ""
        return f"numbers of shape {shape}{where}", f"{other}" if shape != other else "others"
    has, needs = _brief(old), _brief(new)
    if isinstance(old, list) and isinstance(new, list) and len(old) != len(new):
        if max(len(old), len(new)) > SHOWN:
            has, needs = f"{has} ({len(old)} in all)", f"{needs} ({len(new)})"
    elif has == needs:
        has, needs = repr(old), repr(new)
    return has + (f" at {at}" if at else ""), needs


def _shape(value: Any) -> list[int]:
    """Of a tensor as lists in lists."""
    shape = []
    while isinstance(value, (list, tuple)):
        shape.append(len(value))
        value = value[0] if value else None
    return shape


def _brief(value: Any) -> str:
    """A constant as it is read: few digits, and not more than a few numbers."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (list, tuple)):
        more = ", ..." if len(value) > SHOWN else ""
        return f"[{', '.join(map(_brief, value[:SHOWN]))}{more}]"
    if type(value) is int and abs(value) >= ENDLESS:
        return "the end" if value > 0 else "the start"
    return str(value)


def _plain(value: Any) -> Any:
    """What an attribute holds, in Python's own types."""
    import onnx

    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value).tolist()
    if isinstance(value, bytes):
        return value.decode()
    listed = not isinstance(value, (str, int, float))
    return [_plain(each) for each in value] if listed else value


def _small(weight: Weight | None) -> Any:
    """What is in a constant of few numbers."""
    import onnx

    if weight is None or math.prod(weight.proto.dims) > SMALL:
        return None
    proto = onnx.TensorProto(raw_data=b"".join(map(bytes, weight.values.chunks())))
    proto.MergeFrom(weight.proto)
    return onnx.numpy_helper.to_array(proto).tolist()


def _line(about: dict[str, str]) -> str:
    scope = about.get("hx.module")
    return about.get("hx.source", "an unknown line") + (f" (in {scope})" if scope else "")
