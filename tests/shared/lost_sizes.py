"""A size that leaves the recording unseen: Python takes it from a method, and gives back a number."""


class _Held:
    def __init__(self, size: int) -> None:
        self.size = size

    def __hash__(self) -> int:
        return self.size


def lost(size: int) -> int:
    return hash(_Held(size))
