"""An export that is run once more, at the sizes that a test asks for."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

import hx
from hx import Registry, proving, verify


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


@pytest.fixture
def proved(tmp_path):
    """Exports with verification; then runs the file against the model at each of `sizes`.

    `sizes` are dicts of dynamic name -> size. Where the model itself refuses one, the test fails.
    """

    def export(model, args=(), dynamic=None, sizes=(), **options):
        path = tmp_path / "model.onnx"
        program = hx.export(model, args, path, dynamic=dynamic, **options)
        assert program.proof.ok
        assert path.exists()
        captured = program._captured
        cases = []
        for wanted in sizes:
            tensors = {
                name: verify.resized(
                    tensor,
                    {
                        axis: wanted[word]
                        for axis, word in captured.prepared.dynamic.get(name, {}).items()
                        if word in wanted
                    },
                    seed=3,
                )
                for name, tensor in captured.prepared.tensors.items()
            }
            cases.append(verify.Case(str(wanted), tensors, proving.run(captured, tensors)))
        if cases:
            # A unit in the last place of the inputs may matter more at another size.
            for case in cases:
                case.noise = proving._noise(captured, case)
            verify.prove(path, cases).require()
        return program

    return export


@pytest.fixture
def lacking():
    """A registry of the installed packs without their converters of some functions, by name."""

    def registry(*names):
        def other(registration):
            return registration.target.replace("::", ".").rpartition(".")[2] not in names

        packs = Registry.installed().packs
        return Registry(
            replace(p, registrations=tuple(filter(other, p.registrations))) for p in packs
        )

    return registry


@pytest.fixture
def line_of():
    """The number of the line of a function that holds some text: where an error should point."""

    def find(function, text):
        code = getattr(function, "__code__", None) or function.forward.__code__
        with open(code.co_filename) as file:  # noqa: PTH123
            lines = file.read().splitlines()
        for number in range(code.co_firstlineno, len(lines) + 1):
            if text in lines[number - 1]:
                return number
        raise AssertionError(f"{text!r} is not in {code.co_name}")

    return find
