"""Ctrl-C at a chosen line."""

import sys


def interrupted(run, at, modules):
    """Runs it with an interrupt at the at-th line of these modules; whether it came that far."""
    files, left = {module.__file__ for module in modules}, at

    def trace(frame, event, arg):
        nonlocal left
        # An interrupt inside of __del__ would be a second one: Python swallows it there.
        if frame.f_code.co_filename not in files or frame.f_code.co_name == "__del__":
            return None
        if event == "line":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        run()
    except KeyboardInterrupt:
        pass
    finally:
        sys.settrace(before)
    return left <= 0
