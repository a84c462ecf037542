"""The state of NumPy's generator is put back, though it is rarely read."""

from __future__ import annotations

import numpy as np
import pytest

from hx.torchworld.state.numpy_generator import NumpyGenerator


@pytest.fixture(autouse=True)
def seed():
    before = np.random.get_state()
    np.random.seed(0)
    yield
    np.random.set_state(before)


@pytest.fixture
def reads(monkeypatch):
    found, read = [], np.random.get_state
    monkeypatch.setattr(np.random, "get_state", lambda: found.append(1) or read())
    return found


def test_it_is_not_read_again_where_nobody_drew(reads):
    before = NumpyGenerator()
    before.put_back()
    assert len(reads) == 1
    np.random.rand()
    before.put_back()
    assert len(reads) == 2


@pytest.mark.parametrize(
    "change",
    [
        np.random.rand,
        np.random.randn,
        lambda: np.random.rand(700),
        lambda: np.random.randn(2),
        lambda: np.random.seed(1),
    ],
)
def test_a_change_is_put_back(change):
    before = NumpyGenerator()
    change()
    before.put_back()
    after = np.random.randn(3)
    np.random.seed(0)
    assert (after == np.random.randn(3)).all()


def test_a_normal_number_that_waits_is_put_back():
    both = np.random.randn(2)
    np.random.seed(0)
    assert np.random.randn() == both[0]
    before = NumpyGenerator()
    assert np.random.randn() == both[1]  # changes none of the 624 numbers
    before.put_back()
    assert np.random.randn() == both[1]
