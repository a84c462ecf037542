"""Windows and frequencies of a size that the graph learns."""

import pytest
import torch

import hx

FUNCTIONS = {
    "hann": torch.hann_window,
    "hann, not periodic": lambda n: torch.hann_window(n, False),
    "hamming": lambda n: torch.hamming_window(n, True, 0.5, beta=0.4),
    "blackman": torch.blackman_window,
    "bartlett": lambda n: torch.bartlett_window(n, periodic=False),
    "kaiser": lambda n: torch.kaiser_window(n, True, 8.0),
    "fftfreq": lambda n: torch.fft.fftfreq(n, 0.5),
    "rfftfreq": torch.fft.rfftfreq,
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_window_is_as_long_as_the_signal(name):
    class Model(torch.nn.Module):
        def forward(self, x):
            return FUNCTIONS[name](x.shape[0])

    program = hx.export(Model(), torch.randn(7), dynamic={"x": {0: "time"}})
    assert not program.report.escapes
    for size in (1, 2, 8, 9):
        x = torch.randn(size)
        torch.testing.assert_close(program.run(x), Model()(x), atol=1e-6, rtol=1e-5)


def test_a_size_that_a_function_takes_as_a_plain_number_is_told():
    class Model(torch.nn.Module):
        def forward(self, x):
            return x + torch.empty_strided((x.shape[0], 2), (2, 1)).fill_(0)

    program = hx.export(Model(), torch.randn(3, 2), dynamic={"x": {0: "n"}}, verify=False)
    assert "empty_strided computes sizes outside of Python" in str(program.report.escapes[0])
