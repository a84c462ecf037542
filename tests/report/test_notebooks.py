"""A program and a report in a notebook, run by nbclient."""

from __future__ import annotations

import pytest

nbclient = pytest.importorskip("nbclient", reason="pip install nbclient ipykernel")
nbformat = pytest.importorskip("nbformat", reason="pip install nbclient ipykernel")

EXPORT = """
import hx, torch
class Scaled(torch.nn.Module):
    def forward(self, x):
        return x * x.amax().item() if bool(x.sum() > -1e9) else x.sum()
program = hx.export(Scaled(), torch.ones(2, 3))
"""


@pytest.fixture(scope="module")
def outputs():
    """The HTML of the last lines of two cells: a program, and its report."""
    cells = [EXPORT + "program", "program.report"]
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3").execute()
    return [cell.outputs[-1]["data"]["text/html"] for cell in book.cells]


def test_a_program_and_its_report_are_shown_as_a_table(outputs):
    for shown in outputs:
        assert shown.startswith("<table>") and "x float32[2,3]" in shown
        assert "all sizes are fixed" in shown and "input sets" in shown


def test_an_open_finding_is_shown_first(outputs):
    for shown in outputs:
        assert shown.index(">open<") < shown.index(">inputs<")
        assert "ok, with 1 open finding" in shown
