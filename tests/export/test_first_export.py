"""Imports by the first export of a process, which users wait for most often."""

import subprocess
import sys

CODE = """
import gc, sys, numpy, torch, hx

found = []
gc.callbacks.append(lambda when, about: found.append(about["generation"]))
hx.export
assert 2 not in found, "the garbage collection went through all of PyTorch"

x = torch.randn(2, 3)
hx.export(torch.nn.Linear(3, 2), x, None, dynamic={"input": {0: "n"}})
assert "torch.onnx" not in sys.modules
assert "torch.ao.quantization.fx" not in sys.modules

@torch.library.custom_op("hx_tests::twice_tanh", mutates_args=())
def twice_tanh(x: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(2 * numpy.tanh(x.numpy()))

class Asks(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(x) * 2 if torch.onnx.is_in_onnx_export() else twice_tanh(x)

program = hx.export(Asks(), x, None)
print(*program.report.notes)
"""


def test_only_what_is_needed_is_imported_and_questions_are_answered_all_the_same():
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "torch.onnx.is_in_onnx_export() = True" in done.stdout
