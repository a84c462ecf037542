"""What holds for every test."""

from __future__ import annotations

import signal

import pytest


@pytest.fixture(autouse=True, scope="session")
def signals_are_heard():
    """Also by what the tests start: background jobs ignore Ctrl-C, and what nohup runs a hang-up.

    A handler is not inherited as being ignored is; this process goes on ignoring the hang-up.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    hangup = getattr(signal, "SIGHUP", None)
    if hangup is not None and signal.getsignal(hangup) is signal.SIG_IGN:
        signal.signal(hangup, lambda number, frame: None)
