"""Equations of torch.einsum, written out in the form that ONNX takes."""

from __future__ import annotations

import string

from hx import case, converter

from ._common import result_type
from ._contraction import ordered, product, summed


@converter("torch.ops.aten.einsum",
           cases=[case("bij,bjk->bik", ["float32[n,2,3]", "float32[n,3,4]"]),
                  case("...i,i", ["float32[n,2,3]", "float32[3]"])])  # fmt: skip
@converter("torch.einsum", "torch.functional.einsum",
           cases=[case("bij,bjk->bik", "float32[n,2,3]", "float32[n,3,4]"),
                  case("...i,i", "float32[n,2,3]", "float32[3]")])  # fmt: skip
def einsum(op, equation, *operands, path=None):
    if not isinstance(equation, str):
        equation, operands = _from_numbers([equation, *operands])
    elif len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    dtype = result_type(*operands)
    terms, out = _written_out(equation.replace(" ", ""), [x.rank for x in operands])
    if not dtype.is_floating_point and not dtype.is_complex:
        dtype = op.result.dtype  # sums of integers are int64
    parts = [_one_of_each(op, op.cast(x, dtype), term) for x, term in zip(operands, terms)]
    ends = iter(path or ())
    while len(parts) > 1:
        first, second = sorted((next(ends), next(ends))) if path else (0, 1)
        right, left = parts.pop(second), parts.pop(first)
        asked = {*out}.union(*(letters for _, letters in parts))
        kept = [*(_kept(left[1], right[1], asked) if parts else out)]
        parts.append((product(op, left, right, kept), kept))
    return ordered(op, summed(op, *parts, out), out)


def _kept(left, right, asked):
    """Return the letters to keep of a product of two, in the order in which it produces them."""
    both = [c for c in left if c in right and c in asked]
    rest = [c for c in [*left, *right] if c not in both and c in asked]
    return both + rest


def _from_numbers(args):
    """Convert the other form of arguments: x, [0, 1], y, [1, 2], [0, 2]."""
    letters = string.ascii_letters

    def term(numbers):
        return "".join("..." if n is Ellipsis else letters[n] for n in numbers)

    operands, rest = args[0::2], args[1::2]
    if len(args) % 2:
        return ",".join(map(term, rest)) + "->" + term(operands[-1]), operands[:-1]
    return ",".join(map(term, rest)), operands


def _written_out(equation, ranks):
    """Write each term and the result in letters only: `...` becomes unused letters."""
    left, arrow, out = equation.partition("->")
    terms = left.split(",")
    free = [c for c in string.ascii_letters if c not in equation]
    widths = [rank - len(t.replace("...", "")) for t, rank in zip(terms, ranks) if "..." in t]
    widest = free[: max(widths, default=0)]
    letters = left.replace(",", "").replace(".", "")
    if not arrow:
        out = "..." + "".join(sorted(c for c in set(letters) if letters.count(c) == 1))

    def spelled(term, rank):
        width = rank - len(term.replace("...", ""))
        return term.replace("...", "".join(widest[len(widest) - width :]))

    return [spelled(t, r) for t, r in zip(terms, ranks)], out.replace("...", "".join(widest))


def _one_of_each(op, x, term):
    """Take the diagonal for a letter that occurs twice in a term."""
    from .diagonals import diagonal

    for letter in dict.fromkeys(term):
        while term.count(letter) > 1:
            first = term.index(letter)
            second = term.index(letter, first + 1)
            x = diagonal(op, x, 0, first, second)  # the diagonal lies last
            term = term[:first] + term[first + 1 : second] + term[second + 1 :] + letter
    return x, term
