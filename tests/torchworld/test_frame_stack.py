"""Calls go deep and up again without asking the system for memory each time."""

import resource
import sys

import pytest

from hx.frame_stack import with_large_frame


def _down(depth, then):
    return then() if depth == 0 else _down(depth - 1, then)


def _faults(work):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    work()
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before


def _calls():
    for _ in range(300):
        _down(20, int)


def _most():
    """At the worst of many depths; pages that come along are touched in a first round."""
    depths = range(0, 400, 10)
    return max(min(_down(depth, lambda: _faults(_calls)) for _ in range(3)) for depth in depths)


@pytest.mark.skipif(sys.version_info < (3, 11), reason="there each frame is memory of its own")
def test_no_depth_asks_for_memory_at_every_call():
    assert _most() >= 300  # what it is there for
    assert with_large_frame(_most)() < 100


def test_what_goes_in_and_out_is_the_functions_own():
    @with_large_frame
    def told(a, *rest, b=1, **more):
        """Documented."""
        if more.get("wrong"):
            raise ValueError("told")
        return a, rest, b, more

    assert told(1, 2, b=3, c=4) == (1, (2,), 3, {"c": 4})
    assert (told.__name__, told.__doc__) == ("told", "Documented.")
    with pytest.raises(ValueError, match="told"):
        told(1, wrong=True)


def test_recursion_is_bounded_as_before():
    def endless():
        return endless()

    with pytest.raises(RecursionError):
        with_large_frame(endless)()
