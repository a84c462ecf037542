"""What is told on a terminal fits it; in a pipe a line stays a line."""

from __future__ import annotations

import re

import pytest

from hx.cli.folding import fold

PROSE = "a sentence of several words that goes on for longer than there is room on one line, twice"


@pytest.mark.parametrize("room", [40, 80, 120])
@pytest.mark.parametrize(
    "label",
    ["", "  ", "  why:   ", "  hint:  ", "error: ", "warning: ", "proof    ", "right for  "],
)
def test_a_line_is_broken_between_words_and_set_in_under_what_it_goes_on_with(room, label):
    told = fold(label + PROSE, room).splitlines()
    assert max(map(len, told)) <= room
    assert " ".join(line.strip() for line in told).split() == (label + PROSE).split()
    width = len(label) if label.strip() else len(label) + 2
    assert all(re.match(" *", line).end() == width for line in told[1:])


def test_what_fits_stays_as_it_is():
    text = "  why:   short\n\n    a   table\n"
    assert fold(text, 80) == text


@pytest.mark.parametrize(
    "piece",
    [
        "hx packs new my-pack --target acme::swirl --target torch.linalg.eigvals",
        "`safetensors.torch.save_file(model.state_dict(), path)`",
        '--input "image=float32[batch, 3, 224, 224] and more"',
        "-c 'import hx_converters.standard_pack as a_long_name'",
    ],
)
def test_what_is_to_be_copied_stays_in_one_piece(piece):
    assert piece in fold(f"  hint:  some words that lead to it: {piece}", 60)


def test_colours_take_no_room():
    red, plain = "\x1b[31merror:\x1b[0m", "error:"
    told = fold(f"{red} {PROSE}", 50)
    assert told.replace(red, plain) == fold(f"{plain} {PROSE}", 50)


def test_only_a_terminal_is_folded_for(monkeypatch, capsys):
    import io

    from hx.cli.output import folded

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("COLUMNS", "40")
    assert "\n" in folded(PROSE, Terminal()) and folded(PROSE, io.StringIO()) == PROSE
