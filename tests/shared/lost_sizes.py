"""A size that leaves the recording unseen: compiled code takes it and gives it back as a number."""

import ctypes


def lost(size: int) -> int:
    number = ctypes.c_int64()
    number.value = size
    return number.value
