"""Several stretches of bytes arrive whole, however many of them the system takes at once."""

import os

import pytest

from hx.saving import write_ahead

PIECES = [b"head", memoryview(bytes(range(256)) * 40), b"", b"tail"]


def _some(count):
    """A system that takes up to so many bytes of what it is given."""

    def several(fd, pieces):
        return os.write(fd, b"".join(pieces)[:count])

    return several


@pytest.mark.parametrize("several", ["the system's", None, _some(1), _some(4), _some(99), _some(0)])
@pytest.mark.parametrize("pieces", [PIECES, [], [b""]])
def test_all_of_it_is_written_in_its_order(tmp_path, monkeypatch, several, pieces):
    if several != "the system's":
        monkeypatch.setattr(write_ahead, "_write_several", several)
    with (tmp_path / "file").open("wb", buffering=0) as file:
        assert write_ahead.write_all(file, [b"<"]) == 1
        assert write_ahead.write_all(file, pieces) == sum(map(len, pieces))
    assert (tmp_path / "file").read_bytes() == b"<" + b"".join(pieces)
