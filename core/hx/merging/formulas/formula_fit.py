"""Formulas for numbers that are known at several sizes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from ...budget import BUDGET
from ...ir.sizes import dims

Sizes = Mapping[str, int]
Compute = Callable[[Mapping[str, Any]], Any]

_DIVISORS = (*range(2, 17), 20, 24, 28, 32, 48, 64)
_SHIFTS = sorted(range(-16, 65), key=abs)
_FLOAT32_ROUNDING = 2e-6  # relative: numbers may have been rounded to float32


@dataclass(frozen=True)
class Formula:
    """A formula of sizes by name, as ints or as values that compute with them in a graph.

    One that turns goes on otherwise from a size of this name on, and so every `period` sizes, if
    there is one. Only there does it differ from others that are alike between turns.
    """

    compute: Compute
    word: str = ""
    turn: int = 0
    period: int = 0

    def __call__(self, sizes: Mapping[str, Any]) -> Any:
        return self.compute(sizes)

    def turns(self, low: int, high: int) -> set[int]:
        """Return the sizes on both sides of the first turn and the last one between two sizes."""
        if not self.word:
            return set()
        first = last = self.turn
        if self.period:
            first = low + 1 + (self.turn - low - 1) % self.period
            last = high - (high - self.turn) % self.period
        return {n for turn in (first, last) for n in range(turn - 1, turn + 2) if low <= n <= high}


def find(at: Sequence[Sizes], numbers: Sequence[int | float]) -> Formula | None:
    """Return the plainest formula that gives each number at its sizes; None if there is none."""
    first = numbers[0]
    if all(number == first for number in numbers):
        return Formula(lambda _: first)
    if not all(map(math.isfinite, numbers)):
        return None
    words = [w for w in at[0] if len({sizes[w] for sizes in at}) > 1]
    whole = all(float(number).is_integer() for number in numbers)
    tried: Iterator[Formula]
    if whole:
        counts = [int(number) for number in numbers]
        tried = itertools.chain(
            _straight(words, at, counts),
            _divided(words, at, counts),
            _left_over(words, at, counts),
            _limited(words, at, counts),
            _together(words, at, counts),
            _curved(words, at, counts),
        )
    else:
        tried = itertools.chain(
            _real(words, at, numbers), _together(words, at, numbers), _powers(words, at, numbers)
        )
    return next((each for each in tried if _fits(each, at, numbers, whole)), None)


def _fits(formula: Formula, at: Sequence[Sizes], numbers: Sequence[Any], whole: bool) -> bool:
    for sizes, number in zip(at, numbers):
        try:
            found = formula(sizes)
        except ArithmeticError:
            return False
        if found != number if whole else not math.isclose(found, number, rel_tol=_FLOAT32_ROUNDING):
            return False
    return True


def _straight(words: list[str], at: Sequence[Sizes], numbers: Sequence[int]) -> Iterator[Formula]:
    """Yield lines, such as 3 * n + 1."""
    for word in words:
        slope = Fraction(numbers[1] - numbers[0], at[1][word] - at[0][word] or 1)
        if slope.denominator == 1:
            factor, rest = int(slope), numbers[0] - int(slope) * at[0][word]
            yield _line(word, factor, rest)


def _line(word: str, factor: int, rest: int) -> Formula:
    def formula(sizes):
        found = sizes[word] if factor == 1 else sizes[word] * factor
        return found + rest if rest else found

    return Formula(formula)


def _divided(words: list[str], at: Sequence[Sizes], numbers: Sequence[int]) -> Iterator[Formula]:
    """Yield quotients, such as (n + 1) // 2 - 1."""
    for word, divisor in itertools.product(words, _DIVISORS):
        for shift in _SHIFTS:
            if shift < divisor:
                rest = numbers[0] - (at[0][word] + shift) // divisor
                yield _quotient(word, shift, divisor, rest)


def _quotient(word: str, shift: int, divisor: int, rest: int) -> Formula:
    def formula(sizes):
        found = (sizes[word] + shift if shift else sizes[word]) // divisor
        return found + rest if rest else found

    return Formula(formula, word, -shift, divisor)


def _left_over(words: list[str], at: Sequence[Sizes], numbers: Sequence[int]) -> Iterator[Formula]:
    """Yield remainders, such as n % 4 or -n % 4."""
    for word, divisor, sign in itertools.product(words, _DIVISORS, (1, -1)):
        if max(numbers) < divisor:
            shift = (numbers[0] - sign * at[0][word]) % divisor
            yield _remainder(word, sign, shift, divisor)


def _remainder(word: str, sign: int, shift: int, divisor: int) -> Formula:
    return Formula(
        lambda sizes: (sizes[word] * sign + shift) % divisor, word, -sign * shift, divisor
    )


def _limited(words: list[str], at: Sequence[Sizes], numbers: Sequence[int]) -> Iterator[Formula]:
    """Yield limited lines, such as min(n, 6) or max(n - 2, 1)."""
    for end, choose in ((max(numbers), dims.smaller), (min(numbers), dims.larger)):
        inside = [i for i, number in enumerate(numbers) if number != end]
        if len(inside) > 1:
            free = [at[i] for i in inside], [numbers[i] for i in inside]
            for word in words:
                for formula in _straight([word], *free):
                    if _fits(formula, *free, whole=True):
                        yield _within(formula, word, end, choose)


def _within(line: Formula, word: str, end: int, choose: Callable[[Any, Any], Any]) -> Formula:
    rest = line({word: 0})
    slope = line({word: 1}) - rest
    turn = -((rest - end) // slope) if slope else 0
    return Formula(lambda sizes: choose(line(sizes), end), word, turn)


def _together(words: list[str], at: Sequence[Sizes], numbers: Sequence[Any]) -> Iterator[Formula]:
    """Yield formulas of two sizes, such as 2 * h * w + 1 or h + w."""
    for a, b in itertools.combinations(words, 2):
        products = [sizes[a] * sizes[b] for sizes in at]
        factor = _plain(numbers[1] - numbers[0], products[1] - products[0])
        if factor is not None:
            rest = _whole(numbers[0] - factor * products[0])
            yield _product(a, b, _whole(factor), rest)
        found = _solved(at, numbers, a, b)
        if found is not None:
            yield _sum(a, b, *found)


def _product(a: str, b: str, factor: Any, rest: Any) -> Formula:
    def formula(sizes):
        found = sizes[a] * sizes[b] * factor
        return found + rest if rest else found

    return Formula(formula)


def _sum(a: str, b: str, of_a: Any, of_b: Any, rest: Any) -> Formula:
    def formula(sizes):
        found = sizes[a] * of_a + sizes[b] * of_b
        return found + rest if rest else found

    return Formula(formula)


def _solved(at: Sequence[Sizes], numbers: Sequence[Any], a: str, b: str) -> tuple | None:
    """Return the factors of two sizes in the numbers and the rest, from the first three."""
    (a1, a2), (b1, b2) = ([sizes[w] - at[0][w] for sizes in at[1:3]] for w in (a, b))
    up1, up2 = (number - numbers[0] for number in numbers[1:3])
    whole = a1 * b2 - a2 * b1
    of_a, of_b = _plain(up1 * b2 - up2 * b1, whole), _plain(a1 * up2 - a2 * up1, whole)
    if of_a is None or of_b is None:
        return None
    rest = numbers[0] - of_a * at[0][a] - of_b * at[0][b]
    return _whole(of_a), _whole(of_b), _whole(rest)


def _plain(up: Any, along: int) -> Any:
    """Return a slope: an int, or the plainest fraction as a float; None if there is none."""
    if not along:
        return None
    if type(up) is int:
        slope = Fraction(up, along)
        return slope.numerator if slope.denominator == 1 else None
    return plainest(up / along)


def plainest(number: Any) -> Any:
    """Return the plain number that was probably written, if this is its rounded value."""
    if type(number) is int:
        return number
    plain = float(Fraction(number).limit_denominator(BUDGET.formulas.denominator))
    return plain if math.isclose(plain, number, rel_tol=_FLOAT32_ROUNDING) else number


def _whole(number: Any) -> Any:
    return int(number) if type(number) is int or float(number).is_integer() else number


def _curved(words: list[str], at: Sequence[Sizes], numbers: Sequence[int]) -> Iterator[Formula]:
    """Yield quadratic formulas, such as n * (n - 1) // 2."""
    for word in words:
        (x, y), (x1, y1), (x2, y2) = ((at[i][word], numbers[i]) for i in range(3))
        if len({x, x1, x2}) < 3:
            continue
        up, up1 = Fraction(y1 - y, x1 - x), Fraction(y2 - y1, x2 - x1)
        squares = (up1 - up) / (x2 - x)
        single = up - squares * (x + x1)
        rest = y - squares * x * x - single * x
        below = math.lcm(squares.denominator, single.denominator, rest.denominator)
        if squares and below <= 2:
            factors = int(squares * below), int(single * below), int(rest * below)
            yield _square(word, factors, below)


def _square(word: str, factors: tuple[int, int, int], below: int) -> Formula:
    squares, single, rest = factors

    def formula(sizes):
        n = sizes[word]
        found = n * n * squares + n * single + rest
        return found if below == 1 else found // below

    return Formula(formula)


_CURVES: list[Callable[[Any], Any]] = [
    lambda n: n * 1.0,
    lambda n: 1.0 / (n * 1.0),
    lambda n: 1.0 / (n * 1.0 - 1.0),
    lambda n: (n * 1.0) ** 0.5,
    lambda n: (n * 1.0) ** -0.5,
]


def _real(words: list[str], at: Sequence[Sizes], numbers: Sequence[float]) -> Iterator[Formula]:
    """Yield real formulas, such as n / 3, 0.5 / n + 1 or n ** -0.5."""
    for word, curve in itertools.product(words, _CURVES):
        if min(sizes[word] for sizes in at[:2]) < 2:
            continue
        ends = [curve(sizes[word]) for sizes in at[:2]]
        if ends[0] != ends[1]:
            slope = plainest((numbers[1] - numbers[0]) / (ends[1] - ends[0]))
            rest = float(
                Fraction(numbers[0] - slope * ends[0]).limit_denominator(
                    BUDGET.formulas.denominator
                )
            )
            yield _along(word, curve, slope, rest)


def _along(word: str, curve: Callable[[Any], Any], slope: float, rest: float) -> Formula:
    def formula(sizes):
        found = curve(sizes[word]) * slope
        return found + rest if rest else found

    return Formula(formula)


def _powers(words: list[str], at: Sequence[Sizes], numbers: Sequence[float]) -> Iterator[Formula]:
    """Yield powers, such as 0.9 ** n."""
    if any(number <= 0 for number in numbers):
        return
    for word in words:
        along = at[1][word] - at[0][word]
        if along:
            base = plainest((numbers[1] / numbers[0]) ** (1 / along))
            yield _power(word, base, plainest(numbers[0] / base ** at[0][word]))


def _power(word: str, base: float, factor: float) -> Formula:
    def formula(sizes):
        found = base ** (sizes[word] * 1.0)
        return found if factor == 1 else found * factor

    return Formula(formula)
