"""How much work Python does, counted rather than timed: the same number on every machine."""

import sys


def steps(run, *args):
    """The functions that `run` calls in this thread, in Python and in C."""
    count = 0

    def seen(frame, event, arg):
        nonlocal count
        count += event in ("call", "c_call")

    before = sys.getprofile()
    sys.setprofile(seen)
    try:
        run(*args)
    finally:
        sys.setprofile(before)
    return count - 1  # without the call that ends the counting
