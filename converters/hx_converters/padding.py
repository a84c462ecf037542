"""Padding, in every mode."""

from __future__ import annotations

from hx import case, converter

from ._common import counted

_MODES = {"constant": "constant", "reflect": "reflect", "replicate": "edge"}


@converter("torch.nn.functional.pad", "torch.ops.aten.pad",
           cases=[case("float32[n,3,5]", [1, 2]), case("float32[n,3,5]", [-1, 2]),
                  *(case("float32[n,3,5]", [1, 2], mode=m) for m in ("reflect", "replicate", "circular"))])  # fmt: skip
def pad(op, input, pad, mode="constant", value=None):
    count = len(pad) // 2
    axes = [input.rank - 1 - i for i in range(count)]
    sides = {axis: (pad[2 * i], pad[2 * i + 1]) for i, axis in enumerate(axes)}
    cuts = any(type(n) is int and n < 0 for n in pad)
    if mode not in ("constant", "circular") and (cuts or 0 in map(_known, input.shape)):
        return _picked(op, input, sides, mode)
    x, sides = _cut(op, input, sides) if cuts else (input, sides)
    if mode == "circular":
        return _picked(op, x, sides, mode)
    full = [0] * (2 * x.rank)
    for axis, (begin, end) in sides.items():
        full[axis], full[axis + x.rank] = begin, end
    filler = op.cast(0 if value is None else value, x.dtype) if mode == "constant" else None
    return op.Pad(x, op.sizes(full), filler, mode=_MODES[mode])


def _cut(op, x, sides):
    """Cut x where padding is negative; return it with the padding that is left."""
    begins = [max(-b, 0) if _known(b) < 0 else 0 for b, _ in sides.values()]
    ends = [e if _known(e) < 0 else 2**62 for _, e in sides.values()]
    left = {axis: tuple(0 if _known(n) < 0 else n for n in both) for axis, both in sides.items()}
    return op.Slice(x, begins, ends, list(sides)), left


def _known(n):
    """Return a size as a plain number; one that may vary counts as a usual one."""
    return n if type(n) is int else 1


def _picked(op, x, sides, mode):
    """Pad each axis by gathering its elements at a list of positions."""
    for axis, (begin, end) in sides.items():
        if type(begin) is int and type(end) is int and begin == 0 and end == 0:
            continue
        size = x.shape[axis]
        place = op.Sub(counted(op, begin + size + end), op.constant(begin))
        if mode == "circular":
            place = op.Mod(place, op.constant(op.larger(size, 1)))  # an empty axis stays empty
        elif mode == "replicate":
            place = op.Min(op.Max(place, 0), op.constant(size - 1))
        else:
            last = op.constant(size - 1)
            place = op.Sub(last, op.Abs(op.Sub(last, op.Abs(place))))
        x = op.Gather(x, place, axis=axis)
    return x


@converter("torch.constant_pad_nd", cases=[case("float32[n,3]", [1, 2], 1.0)])
def constant_pad_nd(op, input, pad, value=0):
    return _pad(op, input, pad, value=value)


_pad = pad


def _in_mode(mode):
    def convert(op, self, padding):
        return _pad(op, self, padding, mode)

    return convert


CONVERTERS = [
    converter(f"torch.ops.aten.{name}_pad{n}d", cases=[case(tensor, [1, 2] * n)])(_in_mode(mode))
    for name, mode in (("reflection", "reflect"), ("replication", "replicate"))
    for n, tensor in enumerate(("float32[n,3,5]", "float32[n,3,5,4]", "float32[n,2,3,5,4]"), 1)
]
