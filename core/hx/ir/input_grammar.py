"""Grammar of inputs: `x=float32[batch,3,224,224]`.

    float32[2,3]          a tensor of normal random numbers
    f32[batch,3,h=224,w]  a word is a dynamic dim; `=224` is its size while recording
    f32[batch,s>=4<=512]  sizes that it may have: no others are promised, or tried
    f32[batch,3,h%8,w%8]  only multiples of 8; with limits, too: h%8>=64<=512
    float32[]             a scalar
    int64[b,s]<30000      integers from 0 up to, not including, 30000
    float32[4]<1          numbers spread evenly from 0 to 1

The same words stand in front of a tensor on the command line (`--input`) and in a converter's
cases. A word that is not given a size gets a small one of its own, so that two dims never agree
by accident.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from hx.errors import InputError

if TYPE_CHECKING:
    import torch

DTYPES = (
    *("float32", "float64", "float16", "bfloat16", "int64", "int32", "int16", "int8"),
    *("uint8", "uint16", "uint32", "uint64", "bool", "complex64", "complex128"),
    *("float8_e4m3fn", "float8_e5m2"),
)
FLOATS = frozenset(d for d in DTYPES if "float" in d)

_SHORT = {
    **{f"f{n}": f"float{n}" for n in (16, 32, 64)},
    **{f"{s}{n}": f"{'u' * (s == 'u')}int{n}" for s in "iu" for n in (8, 16, 32, 64)},
    **{f"fp{n}": f"float{n}" for n in (16, 32, 64)},
    "bf16": "bfloat16",
    "c64": "complex64",
    "c128": "complex128",
    "b1": "bool",
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "single": "float32",
    "long": "int64",
    "short": "int16",
    "bool_": "bool",
}
_USUAL = {"batch": 2, "b": 2, "n": 2, "height": 64, "h": 64, "width": 80, "w": 80}
_SPARE = (3, 5, 7, 11, 13, 17, 19, 23, 29, 31)
_LOOKS_LIKE = re.compile(r"\s*\w+\s*\[[^\[\]]*\]\s*(<\s*\S+\s*)?")
LIMITS = r"(?:(?:>=|<=|%(?!\s*0+\b))\s*\d+\s*)"  # one of them, as it is written


def full_name(dtype: str) -> str:
    """Return the name of a dtype that may be written shorter: fp16, half."""
    return _SHORT.get(dtype, dtype)


class Limits(NamedTuple):
    """The sizes allowed for a dim: `low` to `high` (None: no limit), in multiples of `step`."""

    low: int = 0
    high: int | None = None
    step: int = 1

    def hold(self, size: int) -> bool:
        fits = self.low <= size and (self.high is None or size <= self.high)
        return fits and size % self.step == 0

    def and_also(self, other: Limits) -> Limits:
        highs = [high for high in (self.high, other.high) if high is not None]
        step = math.lcm(self.step, other.step)
        return Limits(max(self.low, other.low), min(highs, default=None), step)

    def require_some(self, word: str) -> None:
        """Raise InputError if no size is within these limits."""
        if self.high is not None and -(-self.low // self.step) * self.step > self.high:
            swapped = Limits(self.high, self.low, self.step)
            raise InputError(
                f"no size is within the limits of {word!r}: {self.in_words(word)}",
                hint=f"the smaller number comes first: {swapped.written(word)}"
                if self.low > self.high
                else f"choose limits with a multiple of {self.step} between them",
            )

    @property
    def least(self) -> int:
        """The smallest size of an axis that is not empty."""
        return max(-(-self.low // self.step), 1) * self.step

    @property
    def single(self) -> int | None:
        """The only size within the limits; None if there are several, or none."""
        if self.high is None or -(-self.low // self.step) != self.high // self.step:
            return None
        return self.high // self.step * self.step

    def written(self, word: str) -> str:
        """The limits as `dynamic=` takes them: s%4>=4<=512."""
        step = f"%{self.step}" if self.step > 1 else ""
        low, high = f">={self.low}" if self.low else "", f"<={self.high}"
        return f"{word}{step}{low}{'' if self.high is None else high}"

    def briefly(self, word: str) -> str:
        """Return the limits as people write them, and a single size as s=4."""
        return self.written(word) if self.single is None else f"{word}={self.single}"

    def in_words(self, word: str) -> str:
        """The limits in words: 4 <= s <= 512, a multiple of 4."""
        if self.low == self.high:
            return f"{word} = {self.low}"
        low, high = f"{self.low} <= " if self.low else "", f" <= {self.high}"
        text = f"{low}{word}{'' if self.high is None else high}"
        if self.step == 1:
            return text
        return f"{text}{' is' if text == word else ','} a multiple of {self.step}"


class NamedLimits(dict[str, Limits]):
    """Limits of sizes, by their names. A name that is missing has no limits."""

    def __missing__(self, word: str) -> Limits:
        return Limits()

    def hold(self, sizes: Mapping[str, int]) -> bool:
        return all(self[word].hold(n) for word, n in sizes.items())


@dataclass(frozen=True)
class TensorSpec:
    """A description of a tensor to be made: dtype, dims, an upper bound, sizes of named dims."""

    dtype: str
    dims: tuple[int | str, ...] = ()
    high: float | None = None
    sizes: tuple[tuple[str, int], ...] = ()
    limits: tuple[tuple[str, str], ...] = ()  # of named dims, as they are written: "%8<=512"

    @property
    def dynamic(self) -> dict[int, str]:
        """Axis -> name, in the form that `hx.export(dynamic=...)` takes."""
        limits = dict(self.limits)
        return {
            axis: dim + limits.get(dim, "")
            for axis, dim in enumerate(self.dims)
            if isinstance(dim, str)
        }

    @property
    def is_float(self) -> bool:
        return self.dtype in FLOATS

    def with_dtype(self, dtype: str) -> TensorSpec:
        return replace(self, dtype=dtype)

    def shape(self, sizes: Mapping[str, int] | None = None) -> tuple[int, ...]:
        """The shape at the given sizes; words without a size there get their usual one."""
        known = choose_sizes([self]) | dict(sizes or {})
        return tuple(known[d] if isinstance(d, str) else d for d in self.dims)

    def bytes(self, sizes: Mapping[str, int] | None = None) -> int:
        """The memory that it takes, in the widest dtype used while it is made."""
        width = {"float64": 8, "complex128": 16}.get(self.dtype, 4 if self.is_float else 8)
        return math.prod(max(size, 1) for size in self.shape(sizes)) * width

    def make(self, sizes: Mapping[str, int] | None = None, seed: int = 0) -> torch.Tensor:
        """A random tensor: the same for the same sizes and seed. The global RNG does not move."""
        import torch

        shape, dtype = self.shape(sizes), getattr(torch, self.dtype)
        random = torch.Generator().manual_seed(seed)
        if self.dtype == "bool":
            return torch.randint(0, 2, shape, generator=random).bool()
        if not (dtype.is_floating_point or dtype.is_complex):
            high = 10 if self.high is None else min(int(self.high), 2**63 - 1)
            return torch.randint(0, high, shape, generator=random).to(dtype)
        if dtype.is_complex:
            return torch.randn(shape, generator=random, dtype=dtype)
        wide = torch.float64 if dtype == torch.float64 else torch.float32
        if self.high is not None:
            return (torch.rand(shape, generator=random, dtype=wide) * self.high).to(dtype)
        return torch.randn(shape, generator=random, dtype=wide).to(dtype)

    def __str__(self) -> str:
        bound = "" if self.high is None else f"<{self.high:g}"
        known = {word: f"={size}" for word, size in self.sizes}
        limits = dict(self.limits)
        dims = (f"{d}{known.get(d, '')}{limits.get(d, '')}" for d in map(str, self.dims))
        return f"{self.dtype}[{','.join(dims)}]{bound}"


def looks_like_spec(text: Any) -> bool:
    """Return True if a string means a tensor (`"float32[2]"`), rather than itself (`"same"`)."""
    return isinstance(text, str) and _LOOKS_LIKE.fullmatch(text) is not None


def choose_sizes(specs: Iterable[TensorSpec]) -> dict[str, int]:
    """A size for every word in the specs: the one that was written, or a small one of its own."""
    specs = list(specs)
    words = list(dict.fromkeys(d for spec in specs for d in spec.dims if isinstance(d, str)))
    sizes: dict[str, int] = {}
    for spec in specs:
        for word, size in spec.sizes:
            if sizes.setdefault(word, size) != size:
                raise InputError(
                    f"the dim {word!r} is {sizes[word]} in one input and {size} in another",
                    why="one word is one size, wherever it stands",
                    hint="give one of the dims another name, or both the same size",
                )
    limits = NamedLimits()
    for word, text in (pair for spec in specs for pair in spec.limits):
        limits[word] = within(text).and_also(limits[word])
        limits[word].require_some(word)
    for word in words:
        if word not in sizes:
            taken = set(sizes.values())
            known = limits[word]
            more = (known.least + known.step * i for i in range(len(words) + 1))
            wanted = (_USUAL.get(word.lower(), 0), *_SPARE, *more, 37)
            fits = [n for n in wanted if n and known.hold(n)]
            sizes[word] = next((n for n in fits if n not in taken), fits[0] if fits else known.low)
    return sizes


def within(text: str) -> Limits:
    """Parse limits such as ">=4<=512" or "%8"."""
    found = Limits()
    for sign, number in re.findall(r"(>=|<=|%)\s*(\d+)", text):
        key = {">=": "low", "<=": "high", "%": "step"}[sign]
        found = found.and_also(Limits(**{key: int(number)}))
    return found


def parse_input(text: str) -> tuple[str | None, TensorSpec]:
    """`name=float32[2,3]` or `float32[2,3]` -> (name or None, spec)."""
    name, equals, _ = text.partition("=")
    if not equals or "[" in name:
        return None, _Reader(text).spec()
    if not name.strip():
        _Reader(text).fail(0, "a name is missing before '='")
    return name.strip(), _Reader(text, len(name) + 1).spec()


def parse_spec(text: str) -> TensorSpec:
    """`float32[2,3]` -> spec."""
    return _Reader(text).spec()


def _most(dtype: str) -> int:
    """The largest number of an integer dtype."""
    bits = int(dtype.rpartition("int")[2])
    return (1 << (bits if dtype.startswith("u") else bits - 1)) - 1


class _Reader:
    """Reads one spec from left to right, and points at the character where it stops."""

    def __init__(self, text: str, at: int = 0) -> None:
        self.text, self.at = text, at

    def fail(self, at: int, what: str, hint: str = "") -> NoReturn:
        raise InputError(
            f"{what}\n    {self.text}\n    {' ' * at}^",
            hint=hint
            or "an input is written like x=float32[batch,3,224,224] or ids=int64[b,s]<100",
        )

    def spec(self) -> TensorSpec:
        self._blank()
        start = self.at
        dtype = self._dtype(self._take(r"\w+"), start)
        self._expect("[", f"a shape in [] has to follow {dtype}")
        dims: list[int | str] = []
        sizes: dict[str, int] = {}
        limits: dict[str, str] = {}
        while not self._take(r"\]"):
            if dims:
                self._expect(",", "a ',' or the closing ']' is missing")
            dims.append(self._dim(sizes, limits))
        high = self._high(dtype)
        self._blank()
        if self.at < len(self.text):
            self.fail(self.at, f"{self.text[self.at :]!r} is too much here")
        return TensorSpec(dtype, tuple(dims), high, tuple(sizes.items()), tuple(limits.items()))

    def _dtype(self, word: str, at: int) -> str:
        if not word:
            self.fail(at, "a dtype is missing")
        plain = full_name(word)
        if plain in DTYPES:
            return plain
        if word in ("int", "uint"):
            self.fail(at, f"{word} has no size", f"write {word}64 or {word}32")
        import difflib

        if "[" not in self.text:
            self.fail(at, f"{self.text!r} says no dtype and shape")
        near = difflib.get_close_matches(word.lower(), [*DTYPES, *_SHORT], 1, 0.5)
        known = ", ".join(DTYPES[:13])
        self.fail(
            at,
            f"there is no dtype {word!r}",
            f"did you mean {_SHORT.get(near[0], near[0])}?" if near else f"known are {known}",
        )

    def _dim(self, sizes: dict[str, int], limits: dict[str, str]) -> int | str:
        self._blank()
        start = self.at
        if number := self._take(r"\d+(?!\w)"):
            self._require_no_other_limits()
            return int(number)
        word = self._take(r"[^\W\d]\w*")
        if not word:
            what = (
                "a size cannot be negative"
                if self.text[start : start + 1] == "-"
                else ("a size or the name of a dim is missing")
            )
            self.fail(start, what, "a dim is a number, or a word when it may change: [batch,3]")
        if self._take(r"="):
            at = self.at
            size = self._take(r"\d+(?!\w)")
            if not size:
                self.fail(at, f"the size of {word!r} has to be a number")
            if sizes.setdefault(word, int(size)) != int(size):
                self.fail(at, f"{word!r} already is {sizes[word]} here")
        while sign := self._take(r">=|<=|%"):
            at = self.at
            bound = self._take(r"\d+(?!\w)")
            if not bound:
                what = "a multiple" if sign == "%" else sign
                self.fail(at, f"what {word!r} is {what} of has to be a number")
            if sign == "%" and not int(bound):
                self.fail(at, f"{word!r} can only be a multiple of a number above 0")
            limits[word] = f"{limits.get(word, '')}{sign}{bound}"
        self._require_no_other_limits(word)
        return word

    def _require_no_other_limits(self, word: str = "dim") -> None:
        if self._take(r"[<>.]"):
            self.fail(self.at - 1, "limits are written otherwise", f"write {word}>=4<=512")

    def _high(self, dtype: str) -> float | None:
        if not self._take(r"<"):
            return None
        self._blank()
        start = self.at
        number = self._take(r"\d+(\.\d+)?(e\d+)?")
        if dtype == "bool" or dtype.startswith("complex"):
            self.fail(start, f"{dtype} has no upper bound")
        if not number or float(number) <= 0:
            self.fail(start, "the upper bound has to be a number above 0")
        if "int" in dtype and float(number) > float(most := _most(dtype)) + 1:
            self.fail(start, f"{dtype} holds no number above {most}")
        return float(number)

    def _blank(self) -> None:
        while self.text[self.at : self.at + 1].isspace():
            self.at += 1

    def _take(self, pattern: str) -> str:
        self._blank()
        match = re.compile(pattern).match(self.text, self.at)
        if match:
            self.at = match.end()
        return match.group() if match else ""

    def _expect(self, character: str, what: str) -> None:
        if not self._take(re.escape(character)):
            self.fail(self.at, what)
