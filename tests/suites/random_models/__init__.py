"""Small models drawn by chance, exported at dynamic sizes and compared with PyTorch.

    python -m tests.suites.random_models --count 2000
    python -m tests.suites.random_models --seed 417 --count 1 --show

A model is a few lines of Python, drawn one after the other out of the templates below: a line that
PyTorch refuses is drawn again. It is exported without verification, at an opset and at dynamic
axes drawn as well, and the file is run beside the model on other inputs, at other sizes, at size 1
and at size 0. What differs is cut down to the lines that are needed, and printed as a program.

right      equal at every size that the model itself takes
told       differs where a value left the graph, and the report names the line
refused    the export said what it cannot do
shaky      differs by no more than the model itself, when its inputs move by a rounding
wrong      the file runs, and computes something else
crashed    anything else: an exporter's own error, a file that does not load or run
"""

from .judge import BAD, Outcome, check
from .model import Model
from .shrinking import shrunk
from .writer import draw

__all__ = ["BAD", "Model", "Outcome", "check", "draw", "shrunk"]
