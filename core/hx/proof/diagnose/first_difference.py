"""First wrong node of a rejected file, and the constants that were baked into the file.

The model is recorded once more on the inputs that failed, and every tensor is kept. The tensors are
compared with those of the rejected file on the same inputs, node by node. The two recordings are
compared as well: a constant that changed is a size or value that was baked in, and from the first
different node on, the model took another branch.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ... import registration
from ...budget import BUDGET
from ...errors import ConverterError, HxError
from ...findings import CHECKED
from ...graph.file_nodes import metadata_of
from ...ir.recipe import Sizing
from ...ir.shapes import PAST_EVERY_END
from ...ir.sizes.comparisons import At
from ...runtime import Refused
from ...samples.sizes import at, sizes_of, told
from ..cases.small_sizes import is_heavy, one_row, small_sizes
from ..differences.nodes import NodeTable, check_nodes, record_again

if TYPE_CHECKING:
    import onnx

    from ...contributions import ReferenceKernel
    from ...graph.model_parts import Parts, Weight
    from ..file_proof import Case
    from ..subject import Subject


class Difference(NamedTuple):
    """First difference between the file and the model on one case."""

    lines: list[str]  # the most telling ones first
    baked: list[str]  # constants of the recording that must differ in this case
    table: NodeTable | None


def locate(
    subject: Subject,
    parts: Parts,
    path: Path,
    case: Case,
    target: Path | None = None,
    custom_ops: Sequence[Any] = (),
) -> Difference:
    """Find the first node of the file that is off on a case that failed, and what is baked in."""
    options: Any = {"target": target, "custom_ops": custom_ops, "until_off": True}
    table = NodeTable([])
    try:
        table = check_nodes(subject, path, case, **options)
    except Refused:  # the file does not run at all: baked constants may be the reason
        with contextlib.suppress(HxError, Exception):
            table.parts = record_again(subject, case)[0]
    except ConverterError as error:  # the converter is right on the recorded inputs only
        return Difference([f"on {case.name} inputs, {error.what}; {error.why}"], [], None)
    except (HxError, Exception):  # the diagnosis goes on without a second run of the model
        return Difference([], [], None)
    baked = [] if table.parts is None else _first(apart(parts, table.parts, case.name))
    row = table.first_off
    whose = "" if row is None else converter(subject, row.target, row.pack)
    told = [table.unseen, *baked, first_off(table, whose)]
    told += [
        _kernel(each)
        for each in subject.recorder.registry.kernels
        if row and each.subject == row.op
    ]
    return Difference([text for text in told if text], baked, table if table.rows else None)


def baked_sizes(subject: Subject, parts: Parts) -> list[str]:
    """List constants and branches that differ at other sizes, although the proof found no error."""
    if not subject.trace.effects.knows_sizes:
        return []  # no constant and no branch can follow from one
    recorded = {name: tensor.shape for name, tensor in subject.recipe.inputs.items()}
    # The given sizes are special to a model that was recorded at others because of that.
    special = subject.recipe.also_proved if subject.recipe.sizing is Sizing.INFORMATIVE else ()
    for case in subject.cases:
        other = any(tensor.shape != recorded[name] for name, tensor in case.feeds.items())
        if other and case.name not in special and not _goes_another_way(subject, case):
            found: list[str] = []
            for each in (*_at_less_work(subject, case), case):
                # Only the first recording has to work.
                with contextlib.suppress(HxError, Exception):
                    found = _first(apart(parts, record_again(subject, each)[0], each.name))
                    if not found:
                        break
            return found
    return []


def _goes_another_way(subject: Subject, case: Case) -> bool:
    """Return True if a question about sizes, proved on both sides, has another answer there."""
    here, there = At(sizes_of(subject.recipe)), At(sizes_of(subject.recipe, case.feeds))
    return any(
        asked.answer_if_known(here) != asked.answer_if_known(there)
        for escape in subject.escapes.values()
        if escape.kind == "branch" and escape.level(True) == CHECKED
        for asked in escape.asked
    )


def _at_less_work(subject: Subject, case: Case) -> list[Case]:
    """Return the case at smaller sizes, for a heavy model; all that are not the recorded ones there.

    If something differs, it may be for a size of one.
    """
    if not is_heavy(subject):
        return []
    words, small = sizes_of(subject.recipe), small_sizes(subject)
    sizes = sizes_of(subject.recipe, case.feeds)
    sizes = {word: small[word] if small[word] != words[word] else n for word, n in sizes.items()}
    sizes = one_row(subject, subject.cases, sizes)
    return [replace(case, name=told(sizes), feeds=at(subject.recipe, sizes))]


def _first(told: Iterator[str]) -> list[str]:
    """Return the first few lines, each once: many nodes may read one constant."""
    return list(dict.fromkeys(told))[: BUDGET.shown.differences]


def converter(subject: Subject, target: str, pack: str) -> str:
    """Return the pack and the line of the converter that wrote a node."""
    place = subject.recorder.registry.place(target, pack, subject.recorder.opset)
    return f"converter from {pack or '?'}" + (f" at {place}" if place else "")


def _kernel(kernel: ReferenceKernel) -> str:
    """Return the reference kernel that ran the node, which may be wrong as well."""
    place = "{}:{}".format(*registration.place(kernel.run))
    return f"or its reference kernel is wrong, which ran it: that of {kernel.pack} at {place}"


def written(subject: Subject, node: onnx.NodeProto) -> str:
    """Describe the model's call that a faulty node stands for, and its converter."""
    about = metadata_of(node)
    target = about.get("hx.target", "")
    whose = converter(subject, target, about.get("hx.pack", ""))
    return f"the node: {node.op_type} of {target or '?'} at {_line(about)}; {whose}"


def first_off(table: NodeTable, whose: str) -> str:
    """Describe the first node of the file whose result differs from the model's; "" if none does."""
    row = table.first_off
    if row is None:
        return ""
    error = f", error {row.max_rel:.1e} (limit {row.allowed:.1e})" if row.allowed else ""
    return (
        f"first off: {row.op} of {row.target or '?'} at {row.where}: {row.problem}; "
        f"shape {row.shape}{error}; {whose}"
    )


def apart(parts: Parts, other: Parts, name: str) -> Iterator[str]:
    """Yield constants that differ between two recordings, up to the first node that differs.

    `name` is the name of the inputs of the other recording.
    """
    import onnx

    seen = set()  # constants that are reported
    weights, others = ({w.proto.name: w for w in each.weights} for each in (parts, other))
    for a, b in zip(parts.graph.node, other.graph.node):
        about = metadata_of(a)
        if a.op_type != b.op_type or len(a.input) != len(b.input):
            there = metadata_of(b)
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
            if repr(old) != repr(new):  # NaN equals NaN here
                yield _baked(about, f"{a.op_type}.{attribute.name}", old, new, name)
        for x, y in zip(a.input, b.input):
            old, new = _small(weights.get(x)), _small(others.get(y))
            if old is not None and new is not None and repr(old) != repr(new):
                told = (repr(old), repr(new))
                if about:
                    yield _baked(about, about.get("hx.target", a.op_type), old, new, name)
                elif told not in seen:  # only a copy, since it is an output of the graph
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
    """Describe both constants briefly, with the place of the difference if need be."""
    at = ""
    while _brief(old) == _brief(new) and isinstance(old, list) and len(old) == len(new):
        place = next(i for i, (a, b) in enumerate(zip(old, new)) if repr(a) != repr(b))
        old, new, at = old[place], new[place], f"{at}[{place}]"
    shape, other = _shape(old), _shape(new)
    if max(len(shape), len(other)) > 1:  # printing all of its numbers would help nobody
        where = f" at {at}" if at else ""
        return f"numbers of shape {shape}{where}", f"{other}" if shape != other else "others"
    has, needs = _brief(old), _brief(new)
    if isinstance(old, list) and isinstance(new, list) and len(old) != len(new):
        if max(len(old), len(new)) > BUDGET.shown.entries:
            has, needs = f"{has} ({len(old)} in all)", f"{needs} ({len(new)})"
    elif has == needs:
        has, needs = repr(old), repr(new)
    return has + (f" at {at}" if at else ""), needs


def _shape(value: Any) -> list[int]:
    """Return the shape of a tensor that is given as nested lists."""
    shape = []
    while isinstance(value, (list, tuple)):
        shape.append(len(value))
        value = value[0] if value else None
    return shape


def _brief(value: Any) -> str:
    """Format a constant with few digits, and at most a few of its numbers."""
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, (list, tuple)):
        more = ", ..." if len(value) > BUDGET.shown.entries else ""
        return f"[{', '.join(map(_brief, value[: BUDGET.shown.entries]))}{more}]"
    if type(value) is int and abs(value) >= PAST_EVERY_END:
        return "the end" if value > 0 else "the start"
    return str(value)


def _plain(value: Any) -> Any:
    """Return the contents of an attribute in Python's own types."""
    import onnx

    if isinstance(value, onnx.TensorProto):
        return onnx.numpy_helper.to_array(value).tolist()
    if isinstance(value, bytes):
        return value.decode()
    listed = not isinstance(value, (str, int, float))
    return [_plain(each) for each in value] if listed else value


def _small(weight: Weight | None) -> Any:
    """Return the contents of a constant with few numbers."""
    import onnx

    if weight is None or math.prod(weight.proto.dims) > BUDGET.elements.counter:
        return None
    proto = onnx.TensorProto(raw_data=b"".join(map(bytes, weight.values.chunks())))
    proto.MergeFrom(weight.proto)
    return onnx.numpy_helper.to_array(proto).tolist()


def _line(about: dict[str, str]) -> str:
    scope = about.get("hx.module")
    return about.get("hx.source", "code outside of the model") + (f" (in {scope})" if scope else "")
