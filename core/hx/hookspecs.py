"""Hooks that a pack may implement. Their docstrings are the reference.

A pack is an installed distribution with an entry point in the group `hx`:

    [project.entry-points.hx]
    spconv = "hx_spconv.plugin"

The entry point names a module (or any object) that says which API it was written for and has one
or more of the functions below. A function whose name starts with `hx_` is taken for a hook, so
`@hookimpl` may be left out; a name that is no hook is reported, never ignored.

    HX_API = 1

    def hx_converters():
        return ["hx_spconv.convolution"]

Every hook returns a list. New arguments may be added to a hook later; implementations name only
those that they use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import ModuleType
from typing import TYPE_CHECKING, Any

import pluggy

if TYPE_CHECKING:
    from hx.contributions import Container, Executor, GraphPass, ModelSource, ReferenceKernel

API = 1

hookspec = pluggy.HookspecMarker("hx")
hookimpl = pluggy.HookimplMarker("hx")


@hookspec
def hx_converters() -> Iterable[str | ModuleType | Callable[..., Any]]:  # type: ignore[empty-body]
    """Converters: functions made by `@converter`, modules that hold them, or names of modules.

    Names of modules are best: they are imported one after the other, and the one that fails is
    named. Import neither torch nor the library that is converted at the top of these modules;
    `from hx.lazy import torch` gives a module that is imported at its first use.

        return ["hx_spconv.convolution", "hx_spconv.pooling"]
    """


@hookspec
def hx_model_sources() -> Iterable[ModelSource]:  # type: ignore[empty-body]
    """Places where `hx export scheme:name` finds models.

        return [ModelSource("zoo", load_from_zoo, doc="models of the zoo package")]

    `load_from_zoo("unet")` returns a module, or `(module, inputs)`.
    """


@hookspec
def hx_containers() -> Iterable[Container]:  # type: ignore[empty-body]
    """Objects that hold tensors and are passed between modules, taken apart and put together.

        return [Container("spconv.pytorch.SparseConvTensor", flatten, unflatten)]

    `flatten(object)` returns `(dict of name -> tensor, rest)`; `unflatten(dict, rest)` makes a new
    object. The type is a dotted name, so that the library is not imported before it is used.
    """


@hookspec
def hx_reference_kernels() -> Iterable[ReferenceKernel]:  # type: ignore[empty-body]
    """Custom operators in numpy, so that graphs that use them can be verified.

        return [ReferenceKernel("com.acme", "Spline", spline)]

    `spline(x, knots, degree=3)` gets inputs as numpy arrays in order, attributes by name, and
    returns an array, or a tuple of them for several outputs.
    """


@hookspec
def hx_passes() -> Iterable[GraphPass]:  # type: ignore[empty-body]
    """Rewrites of the finished graph, run before it is saved and verified.

        return [GraphPass("fuse-spline", fuse)]

    `fuse(model)` gets the `onnx_ir.Model` and changes it in place, or returns another.
    """


@hookspec
def hx_executors() -> Iterable[Executor]:  # type: ignore[empty-body]
    """Engines that run many exports, for `hx export --batch LIST --on NAME`.

        return [Executor("ray", start, doc="a Ray cluster", retries=True)]

    `start(request)` returns an object with `submit(function, argument)`, which returns a
    `concurrent.futures.Future`, `cancel(future)` and `close()`: see `hx.contributions.Engine`.
    """


HOOKS = (
    hx_converters,
    hx_model_sources,
    hx_containers,
    hx_reference_kernels,
    hx_passes,
    hx_executors,
)
