"""Functions of whole numbers that carry sizes: powers, bits, common divisors."""

from __future__ import annotations

import math

from ...budget import BUDGET
from .bounds import never_negative
from .departures import leaving, listening
from .numpy_scalars import asked, is_dynamic, larger, plain, smaller, spelled


def is_integer(x) -> bool:
    if isinstance(x, int):
        return True
    # Neither a tensor nor an array, which have it for those of one number.
    others = hasattr(x, "__torch_function__") or hasattr(x, "__array_function__")
    return hasattr(x, "__index__") and not others


def are_integers(a, b) -> bool:
    return is_integer(a) and is_integer(b)


def ceil_div(a: int, b: int) -> int:
    # Written so that no negative number is divided: ONNX divides towards zero.
    return (a + (b - 1)) // b


def power_modulo(base, exponent, modulus):
    """`pow(base, exponent, modulus)`: by squares, each reduced, so that no step outgrows an int64.

    Those of a size are looked up: from some exponent on, the remainders come again and again.
    """
    whole = are_integers(base, exponent) and is_integer(modulus)
    if whole and is_dynamic(exponent) and not is_dynamic(base) and not is_dynamic(modulus):
        found = _remainder_of_power(base, exponent, modulus)
        if found is not None:
            return found
    if not whole or is_dynamic(exponent) or exponent < 0:
        numbers = (base, exponent, modulus)
        if whole:
            leaving("int", "pow({}, {}, {})".format(*numbers), asked(int.__pow__, *numbers))
        return int.__pow__(*map(plain, numbers))
    result, square = 1 % modulus, base % modulus
    while exponent:
        if exponent & 1:
            result = result * square % modulus
        exponent >>= 1
        square = square * square % modulus if exponent else square
    return result


def _remainder_of_power(base: int, exponent, modulus: int):
    """Look up the remainder of a power of a number; None if too many come before they repeat."""
    listener = listening()
    if listener is None or not modulus or not never_negative(exponent.poly):
        return None
    found: dict[int, int] = {}  # the first exponent of each remainder
    power = 1 % modulus
    while power not in found and len(found) < BUDGET.elements.listed:
        found[power] = len(found)
        power = power * base % modulus
    first = found.get(power)
    if first is None:
        return None
    place = smaller(exponent, first) + larger(exponent - first, 0) % (len(found) - first)
    return listener.pick([*found], place)


def bits_in(n, mask: int):
    """`n & mask`: each row of ones in the mask is a quotient's remainder."""
    if mask < 0:
        return n - bits_in(n, ~mask)
    found, low = 0, 0
    while mask >> low:
        if not mask >> low & 1:
            low += 1
            continue
        rest = mask >> low
        row = rest & ~(rest + 1)  # the lowest row of ones
        found = found + n // 2**low % (row + 1) * 2**low
        low += row.bit_length()
    return found


def common_divisor(*numbers):
    """math.gcd() that carries a size, if it is that of a size and a number."""
    plain_one = abs(math.gcd(*(n for n in numbers if not is_dynamic(n))))
    sizes = [n for n in numbers if is_dynamic(n)]
    if not 0 < plain_one <= BUDGET.elements.divisor or not all(isinstance(n, int) for n in sizes):
        told = ", ".join(str(spelled(n)) for n in numbers)
        leaving("int", f"gcd({told})", asked(math.gcd, *numbers))
        return math.gcd(*map(plain, numbers))
    # Each divisor of all counts as often as smaller numbers have no divisor in common with it.
    found = 0
    for d in (d for d in range(1, plain_one + 1) if plain_one % d == 0):
        counts = sum(math.gcd(d, k) == 1 for k in range(1, d + 1))
        rests = [smaller(n % d, 1) for n in sizes]
        both = 1 - rests[0]
        for rest in rests[1:]:
            both = both * (1 - rest)
        found = found + both * counts
    return found


def combinations(n, count: int, ordered: bool = False):
    """math.comb(n, count), or with `ordered` math.perm(n, count), of a size."""
    found = 1
    for k in range(count):
        found = found * (n - k) if ordered else found * (n - k) // (k + 1)
    return found


def ones_in(n):
    """n.bit_count(): what is left of it without each of its quotients by a power of two."""
    return n - sum((n // 2**k for k in range(1, BUDGET.sizes.largest.bit_length())), start=0)


def rounded_to(n, ten: int):
    """A size as a multiple of a power of ten, of two that are as near the even one."""
    tens, rest = n // ten, n % ten
    return (tens + (rest + tens % 2 + ten // 2 - 1) // ten) * ten


def common_multiple(a, b):
    """math.lcm() of two numbers that carries sizes."""
    return a * b // common_divisor(a, b)
