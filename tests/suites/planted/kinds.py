"""All kinds of mistakes, and those that may show at far sizes alone."""

from __future__ import annotations

from . import finer_mistakes, mistakes

KINDS = mistakes.KINDS | finer_mistakes.KINDS
FAR = ("rows", "size", "index", "whole", "flow", "dtype")
