"""A limit on the lines of a model: it ends loops, and never an import."""

from __future__ import annotations

import sys

import pytest

from hx.torchworld.modes.line_limit import LineLimit, OutOfLines


def of_nobody(code):
    return False


def rounds(n):
    total = 0
    for i in range(n):
        total += i
    return total


def test_a_loop_is_ended_at_the_limit():
    limit = LineLimit(100, of_nobody)
    with pytest.raises(OutOfLines), limit:
        rounds(1000)
    assert limit.lines == 101


def test_lines_below_the_limit_are_counted_and_tracing_ends():
    before = sys.gettrace()
    with LineLimit(1000, of_nobody) as limit:
        assert rounds(10) == 45
    assert 20 <= limit.lines <= 40 and sys.gettrace() is before


def test_code_that_is_not_the_models_has_no_limit():
    with LineLimit(10, lambda code: code is rounds.__code__) as limit:
        rounds(1000)
    assert limit.lines <= 10


def test_an_import_is_not_broken_off(tmp_path, monkeypatch):
    (tmp_path / "slow_to_import.py").write_text("n = 0\nfor i in range(1000):\n    n += 1\n")
    monkeypatch.syspath_prepend(str(tmp_path))

    def imports():
        import slow_to_import

        return slow_to_import.n

    with LineLimit(50, of_nobody):
        assert imports() == 1000
    monkeypatch.delitem(sys.modules, "slow_to_import")
    (tmp_path / "fails_to_import.py").write_text("1 / 0\n")

    def fails():
        try:
            import fails_to_import
        except ZeroDivisionError:
            return rounds(1000)
        return fails_to_import

    with pytest.raises(OutOfLines), LineLimit(50, of_nobody):
        fails()
