"""Everything that an export may change in a process, read before and compared after."""

from __future__ import annotations

import builtins
import gc
import math
import random
import sys
import threading
import types

import numpy as np
import torch
from torch import nn

from hx import Registry, garbage_collection
from hx.ir.sizes import departures
from hx.packs import containers
from hx.packs.targets import innermost
from hx.recording.calls.choices import Choices
from hx.recording.recording import _local
from hx.torchworld import patching
from hx.torchworld.modes import modes


def hookable():
    """All functions that an export may hook, with their code."""
    choices = Choices(Registry.installed(), 20)
    functions = {*choices.functions, nn.Module._call_impl, nn.Module.__call__}
    functions |= {torch.compiler.is_exporting, torch.jit.is_tracing, torch.onnx.is_in_onnx_export}
    functions.add(innermost(vars(torch.autograd.Function)["apply"]))
    dynamo = sys.modules.get("torch._dynamo.eval_frame")
    if dynamo is not None:
        functions.add(dynamo._callback_from_stance)
    return [f for f in functions if isinstance(f, types.FunctionType)]


class World:
    """Everything that an export changes, read before and compared after."""

    def __init__(self, model):
        self.model = model
        self.asked = 0
        self.codes = {f: f.__code__ for f in hookable()}
        self.before = self.read()
        self.contents = {n: t.clone() for n, t in model.state_dict().items()}

    def read(self):
        found = {
            "len": builtins.len, "min": builtins.min, "max": builtins.max, "sqrt": math.sqrt,
            "tensor": dict(vars(torch.Tensor)), "script": vars(torch._C.ScriptFunction)["__call__"],
            "method": vars(torch._C.ScriptMethod)["__call__"],
            "hooked": (len(patching._codes), len(patching._slots)),
            "recording": getattr(_local, "recording", None), "listening": departures.listening(),
            "containers": getattr(containers._local, "known", None),
            "grad": torch.is_grad_enabled(), "inference": torch.is_inference_mode_enabled(),
            "modes": (modes.functions(), torch._C._len_torch_dispatch_stack()),
            "state": torch._C._get_torch_function_state(),
            "excluded": repr(torch._C._dispatch_tls_local_exclude_set()),
            "included": repr(torch._C._dispatch_tls_local_include_set()),
            "dispatching": torch.utils._python_dispatch.is_in_torch_dispatch_mode(),
            "autocast": torch.is_autocast_enabled("cpu"), "dtype": torch.get_default_dtype(),
            "device": modes.default_device(), "cores": torch.get_num_threads(),
            "deterministic": torch.are_deterministic_algorithms_enabled(),
            "precision": torch.get_float32_matmul_precision(),
            "gc": (gc.get_threshold(), gc.isenabled(), len(garbage_collection._users)),
            "threads": threading.active_count(), "random": random.getstate(),
            "torch": torch.get_rng_state().tolist(), "numpy": repr(np.random.get_state()),
            "stance": getattr(sys.modules.get("torch._dynamo.eval_frame"), "_stance", None),
        }  # fmt: skip
        for path, module in self.model.named_modules():
            state = vars(module)
            found[f"{path}.vars"] = {k: id(v) for k, v in state.items()}
            found[f"{path}.training"] = module.training
            for name in ("_parameters", "_buffers", "_modules"):
                held = getattr(module, name, {})  # a script holds them elsewhere
                found[f"{path}.{name}"] = {k: id(v) for k, v in held.items()}
            for name in [k for k in state if k.endswith("_hooks")]:
                found[f"{path}.{name}"] = list(getattr(state[name], "items", list)())
            for name, tensor in module.named_parameters(recurse=False):
                found[f"{path}.{name}"] = (
                    tensor.requires_grad,
                    tensor.grad,
                    tensor.data_ptr(),
                    tensor._version,
                )
        return found

    def require_unchanged(self, when):
        now = self.read()
        different = [k for k in {**self.before, **now} if self.before.get(k) != now.get(k)]
        assert not different, f"{when}: {different}"
        for function, code in self.codes.items():
            assert function.__code__ is code, f"{when}: {function.__qualname__} still is hooked"
        self.asked += 1
        for name, tensor in self.model.state_dict(keep_vars=True).items():
            # Parameters are many: their versions are read each time, their contents now and then.
            if not isinstance(tensor, nn.Parameter) or self.asked % 50 == 1:
                assert torch.equal(tensor, self.contents[name]), f"{when}: {name}"
