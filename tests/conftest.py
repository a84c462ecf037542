"""Fixtures for every folder of tests."""

from __future__ import annotations

import random
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch


def pytest_collection_modifyitems(items):
    """Run long tests first: at the end, no process waits long for another."""
    items.sort(key=lambda item: item.get_closest_marker("long") is None)


def pytest_collectstart(collector):
    """Seed each file that is imported: some draw numbers there."""
    _seed()


@pytest.fixture(autouse=True)
def seeded():
    """Random numbers are those of the test alone, whichever tests run before it."""
    _seed()


@pytest.fixture
def limit():
    """Set limits of the budget during a test: `limit(BUDGET.bytes, kept_tensors=4096)`."""
    before = []

    def set_limits(section, **limits):
        for name, value in limits.items():
            before.append((section, name, getattr(section, name)))
            object.__setattr__(section, name, value)  # it is frozen for everybody else

    yield set_limits
    for section, name, value in reversed(before):
        object.__setattr__(section, name, value)


def _seed():
    torch.default_generator.manual_seed(0)  # torch.manual_seed also reads the stack, for CUDA
    random.seed(0)
    np.random.seed(0)


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


@pytest.fixture
def one_core():
    """One thread for models: small ones would wait for each other, and other cores are idle."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def proved(tmp_path):
    """Exports with verification; then runs the file against the model at each of `sizes`.

    `sizes` are dicts of dynamic name -> size. Where the model itself refuses one, the test fails.
    """

    import hx
    from hx.proof import file_proof, proving
    from hx.samples import variations

    def export(model, args=(), dynamic=None, sizes=(), **options):
        path = tmp_path / "model.onnx"
        program = hx.export(model, args, path, dynamic=dynamic, **options)
        assert program.proof.ok
        assert path.exists()
        subject = program._subject
        cases = []
        for wanted in sizes:
            tensors = {
                name: variations.resized(
                    tensor,
                    {
                        axis: wanted[word]
                        for axis, word in subject.recipe.request.sizes.get(name, {}).items()
                        if word in wanted
                    },
                    seed=3,
                )
                for name, tensor in subject.recipe.inputs.items()
            }
            cases.append(file_proof.Case(str(wanted), tensors, subject.runner.results(tensors)))
        if cases:
            # A unit in the last place of the inputs may matter more at another size.
            for case in cases:
                case.noise = proving._noise(subject, case)
            file_proof.prove(path, cases).require()
        return program

    return export


@pytest.fixture
def lacking():
    """A registry of the installed packs without their converters of some functions, by name."""

    from hx import Registry

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
        lines = Path(code.co_filename).read_text().splitlines()
        for number in range(code.co_firstlineno, len(lines) + 1):
            if text in lines[number - 1]:
                return number
        raise AssertionError(f"{text!r} is not in {code.co_name}")

    return find


# A model whose weights are in a file, too.


@pytest.fixture
def language():
    from language import Language

    return Language().eval()


@pytest.fixture
def language_file(language, tmp_path):
    from language import own
    from safetensors.torch import save_file

    save_file(own(language), tmp_path / "weights.safetensors")
    return tmp_path / "weights.safetensors"


@pytest.fixture(name="World")
def everything_that_may_change():
    """`World(model)`, and after an export `.require_unchanged("what happened")`."""
    from world import World

    return World
