"""A size that leaves the recording unseen: compiled code takes it and gives it back as a number."""

import array


def lost(size: int) -> int:
    numbers = array.array("q")
    numbers.append(size)
    return numbers[0]
