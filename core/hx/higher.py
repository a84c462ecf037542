"""Functions that take functions: what those do becomes the subgraphs of one node.

`torch.cond` is If, `while_loop` is Loop; `scan`, and what follows from it (`map`,
`associative_scan`, `torch.vmap`), is Scan. Each function is recorded once into a graph of its own,
which may read what the graph around it holds. Both branches are recorded, whichever is taken.
"""

from __future__ import annotations

import contextlib
from builtins import len  # their own: `world` hooks those of the model
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree

from . import dims, shapes
from .errors import HxError, Unaccounted, Unsupported
from .op import Op
from .polynomials import Atom, Poly
from .recording import Recording
from .values import Body, Node, Value


@dataclass
class Part:
    """What a function of the model returned when it was recorded into a graph of its own."""

    leaves: list[Any]  # tensors, numbers and None
    spec: Any
    values: list[Value | None]  # of each leaf that a graph can hold
    nodes: list[Node]

    def body(self, inputs: Sequence[Value] = (), first: Sequence[Value] = ()) -> Body:
        return Body(list(inputs), [*first, *(v for v in self.values if v is not None)], self.nodes)


class Higher:
    """One call of such a function, on its way into the graph."""

    def __init__(self, recording: Recording, target: str) -> None:
        self.recording = recording
        self.builder = recording.builder
        self.target = target
        self.origin = recording.origin(target, "hx")

    # Recording.

    def part(self, function: Callable[[], Any]) -> Part:
        """Records what a function does into nodes of its own."""
        recording, builder = self.recording, self.builder
        self._read_all()
        outer, builder.nodes = builder.nodes, []
        kept = builder.sizes.scope()
        live = recording.live
        around, live.around = live.around, set(live.families.values())
        try:
            leaves, spec = pytree.tree_flatten(function())
            with self.engine():
                values = [self.value(leaf) for leaf in leaves]
            return Part(leaves, spec, values, builder.nodes)
        finally:
            builder.nodes = outer
            builder.sizes.restore(kept)
            self._leave_inside(live.around)
            live.around = around

    def _read_all(self) -> None:
        """What was written to is read now: worked out inside, it would be unknown outside."""
        recording = self.recording
        for entry in list(recording.live.entries.values()):
            tensor = entry()
            if tensor is not None and entry.generation != entry.family.generation:
                try:
                    with self.engine():
                        recording.value_of(tensor)
                except Unaccounted:
                    continue  # whoever reads it will be told

    def _leave_inside(self, around: set) -> None:
        """What was made inside and still lives has no value in the graph around."""
        live = self.recording.live
        for entry in list(live.entries.values()):
            tensor = entry()
            if tensor is not None and entry.family not in around and not entry.value.is_constant:
                live.leave(tensor)

    @contextlib.contextmanager
    def engine(self) -> Iterator[None]:
        """`with self.engine():` calls of torch are the engine's own."""
        recording, builder = self.recording, self.builder
        busy, recording.busy = recording.busy, True
        outer, builder.origin = builder.origin, self.origin
        try:
            with torch._C.DisableTorchFunction(), torch._C._DisableTorchDispatch():
                yield
        finally:
            recording.busy, builder.origin = busy, outer

    def value(self, leaf: Any) -> Value | None:
        if leaf is None:
            return None
        if isinstance(leaf, torch.Tensor):
            return self.recording.value_of(leaf)
        if isinstance(leaf, (bool, int, float)):
            return self.recording.as_output(leaf)
        raise Unsupported(
            f"{self.target}: a function returns a {type(leaf).__name__}, which a graph cannot hold",
            where=self.recording.where(),
        )

    def input(self, like: Value, real: torch.Tensor, shape: Sequence[int]) -> torch.Tensor:
        """A tensor for a function to be called with; its value is an input of the body."""
        made = real.detach().clone()
        self.recording.live.bind(made, self.builder.value(like.dtype, shape))
        return made

    # Results.

    def bind(
        self, real: torch.Tensor, value: Value, shape: Sequence[int | None] | None
    ) -> torch.Tensor:
        """A real result as the tensor that the model gets: no view of anything else."""
        made = real.detach().clone()
        told: list[int | None] = list(shape) if shape is not None else [None] * made.dim()
        value.sized(
            dims.Dim.leaf(value, axis, n) if size is None else size
            for axis, (size, n) in enumerate(zip(told, made.shape))
        )
        self.recording.live.bind(made, value)
        return made

    def outside(self, n: int, nodes: list[Node]) -> int | None:
        """A size of a body's output, if the graph around can compute it too."""
        if not isinstance(n, dims.Dim):
            return int(n)
        inside = {id(o) for node in nodes for o in node.outputs}
        return None if _reaches(n.poly, inside) else n

    def refuse(self, what: str, hint: str = "") -> None:
        raise Unsupported(f"{self.target}: {what}", where=self.recording.where(), hint=hint)

    def done(self) -> None:
        converted = self.recording.converted
        converted[self.target] = converted.get(self.target, 0) + 1

    def real(self, function: Callable[[], Any]) -> Any:
        """What really comes out: PyTorch's own answer, which nobody records."""
        with self.engine():
            return function()


def _reaches(x: Any, inside: set[int]) -> bool:
    """Whether a size was computed from a value that is known inside of a body alone."""
    if isinstance(x, Poly):
        return any(_reaches(atom, inside) for mono in x.terms for atom in mono)
    if isinstance(x, Atom):
        return any(_reaches(a, inside) for a in x.args)
    return isinstance(x, Value) and id(x) in inside


# If.


def cond(recording: Recording, original, args, kwargs):
    pred, true_fn, false_fn, operands = _named(
        args, kwargs, pred=..., true_fn=..., false_fn=..., operands=()
    )
    call = Higher(recording, "torch.cond")
    if not isinstance(pred, torch.Tensor):
        return (true_fn if pred else false_fn)(*operands)
    with call.engine():
        test = recording.value_of(pred)
        taken = pred.is_meta or bool(pred)
    if test.fixed:
        return (true_fn if taken else false_fn)(*operands)
    yes = call.part(lambda: true_fn(*operands))
    no = call.part(lambda: false_fn(*operands))
    if yes.spec != no.spec:
        call.refuse("the two branches return different structures")
    with call.engine():
        for a, b in zip(yes.values, no.values):
            if a is None and b is None:
                continue
            if a is None or b is None or _kind(a) != _kind(b):
                call.refuse("the two branches return tensors of different dtypes or ranks")
        real = (yes if taken else no).leaves
        op = Op(call.builder)
        flat = test if test.rank == 0 else op.Squeeze(test)
        count = sum(v is not None for v in yes.values)
        made = iter(call.builder.emit(
            "If", [flat], {"then_branch": yes.body(), "else_branch": no.body()}, count
        ))  # fmt: skip
        result = [
            None if a is None else _result(call, leaf, next(made), _shared(call, yes.nodes, a, b))
            for leaf, a, b in zip(real, yes.values, no.values)
        ]
    call.done()
    return pytree.tree_unflatten(result, yes.spec)


def _kind(value: Value) -> tuple:
    return value.dtype, value.rank


def _shared(call: Higher, nodes: list[Node], a: Any, b: Any) -> list[int | None]:
    """Sizes that are the same in both branches."""
    both = zip(a.shape, b.shape)
    return [call.outside(m, nodes) if shapes.same(m, n) else None for m, n in both]


def _result(call: Higher, leaf: Any, value: Value, shape: Sequence[int | None] | None) -> Any:
    if isinstance(leaf, torch.Tensor):
        return call.bind(leaf, value, shape)
    value.sized(())
    if isinstance(leaf, int) and not isinstance(leaf, bool):
        return dims.dim(Poly.of(Atom("item", (value,), int(leaf))))
    return call.refuse(f"a function returns a {type(leaf).__name__}, and not a tensor")


# Loop.


def while_loop(recording: Recording, original, args, kwargs):
    cond_fn, body_fn, carried, more = _named(
        args, kwargs, cond_fn=..., body_fn=..., carried_inputs=..., additional_inputs=()
    )
    call = Higher(recording, "torch.while_loop")
    first = _state(call, tuple(carried))
    leaves, spec = pytree.tree_flatten(first)
    start = cond_fn(*first, *more)
    with call.engine():
        begin = call.value(start)
        states = [recording.value_of(leaf) for leaf in leaves]
    inputs: list[Value] = []

    def once() -> Any:
        given = []
        with call.engine():
            for leaf, state in zip(leaves, states):
                given.append(call.input(state, leaf, state.shape or ()))
                inputs.append(recording.value_of(given[-1]))
        new = body_fn(*pytree.tree_unflatten(given, spec), *more)
        new = _state(call, tuple(new))
        return cond_fn(*new, *more), *pytree.tree_leaves(new)

    part = call.part(once)
    with call.engine():
        again, *ends = part.values
        _carried(call, states, ends)
        assert again is not None and begin is not None
        op = Op(call.builder)
        steps = op.input(torch.int64, ()), op.input(torch.bool, ())
        if again.rank or begin.rank:
            call.refuse("cond_fn has to return a scalar")
        values = call.builder.emit(
            "Loop", [None, begin, *states], {"body": part.body([*steps, *inputs])}, len(states)
        )
    plain, kinds = pytree.tree_flatten(tuple(carried))

    def run() -> list[Any]:
        now = [x.detach().clone() if isinstance(x, torch.Tensor) else int(x) for x in plain]
        again = not any(t.is_meta for t in leaves)
        while again and bool(cond_fn(*pytree.tree_unflatten(now, kinds), *more)):
            now = pytree.tree_leaves(tuple(body_fn(*pytree.tree_unflatten(now, kinds), *more)))
        return now

    real = call.real(run)
    with call.engine():
        result = [_result(call, r, v, s.shape) for r, v, s in zip(real, values, states)]
    call.done()
    return pytree.tree_unflatten(result, kinds)


def _state(call: Higher, tree: Any) -> Any:
    """Numbers that go round a loop are tensors in the graph: they differ at each step."""

    def as_tensor(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return leaf
        if isinstance(leaf, bool) or not isinstance(leaf, int):
            call.refuse(f"a {type(leaf).__name__} cannot go round a loop", "carry a tensor")
        with call.engine():
            made = torch.tensor(int(leaf))
            call.recording.live.bind(made, call.builder.number(leaf, torch.int64))
            return made

    return pytree.tree_map(as_tensor, tree)


def _carried(call: Higher, states: Sequence[Value], ends: Sequence[Value | None]) -> None:
    """That what goes round keeps its form."""
    if len(states) != len(ends):
        call.refuse(f"{len(states)} tensors are carried, and the function returns {len(ends)}")
    for state, end in zip(states, ends):
        if end is None or _kind(end) != _kind(state):
            call.refuse("what is carried changes its dtype or rank from step to step")
        elif tuple(map(dims.plain, end.shape or ())) != tuple(map(dims.plain, state.shape or ())):
            call.refuse("what is carried changes its shape from step to step")


# Scan.


def scanned(
    call: Higher, step: Callable, init: list[torch.Tensor], xs: list[torch.Tensor],
    axis: int = 0, reverse: bool = False,
) -> list[Any]:  # fmt: skip
    """`step(carry, slices)` gives the next carry and what is stacked, both as flat lists."""
    recording = call.recording
    inputs: list[Value] = []
    with call.engine():
        states = [recording.value_of(t) for t in init]
        parts = [recording.value_of(t) for t in xs]

    def once() -> Any:
        carry, slices = [], []
        with call.engine():
            for state, tensor in zip(states, init):
                carry.append(call.input(state, tensor, state.shape or ()))
            for value, tensor in zip(parts, xs):
                sizes = list(value.shape or ())
                del sizes[axis]
                slices.append(call.input(value, tensor.select(axis, 0), sizes))
            inputs.extend(recording.value_of(t) for t in (*carry, *slices))
        new, out = step(carry, slices)
        return (*new, *out)

    if any(t.shape[axis] == 0 for t in xs):
        call.refuse("there is nothing to go over: a size is 0")
    part = call.part(once)
    ends, outs = part.values[: len(init)], part.values[len(init) :]
    steps = (parts[0].shape or ())[axis]
    with call.engine():
        _carried(call, states, ends)
        places = [min(axis, v.rank) for v in outs if v is not None]
        attributes: dict[str, Any] = {"num_scan_inputs": len(xs)}
        if axis:
            attributes["scan_input_axes"] = [axis] * len(xs)
            attributes["scan_output_axes"] = places
        if reverse:
            attributes["scan_input_directions"] = [1] * len(xs)
            attributes["scan_output_directions"] = [1] * len(places)
        made = iter(call.builder.emit(
            "Scan", [*states, *parts], {"body": part.body(inputs), **attributes},
            len(states) + len(places),
        ))  # fmt: skip

    def run() -> list[Any]:
        carry, rows = [t.detach().clone() for t in init], []
        order = range(xs[0].shape[axis])
        for i in reversed(order) if reverse else order:
            carry, row = step(carry, [t.select(axis, i) for t in xs])
            carry = list(carry)
            rows.append(list(row))
        rows = rows[::-1] if reverse else rows
        stacks = [
            None if row[0] is None else torch.stack(row, min(axis, row[0].dim()))
            for row in (list(r) for r in zip(*rows))
        ]
        return [*carry, *stacks]

    real = call.real(run)
    result: list[Any] = []
    with call.engine():
        for tensor, state in zip(real, states):
            result.append(call.bind(tensor, next(made), state.shape))
        for tensor, out in zip(real[len(init) :], outs):
            if out is None:
                result.append(None)
                continue
            sizes = [call.outside(n, part.nodes) for n in out.shape or ()]
            sizes.insert(min(axis, out.rank), steps)
            result.append(call.bind(tensor, next(made), sizes))
    call.done()
    return result


def scan(recording: Recording, original, args, kwargs):
    combine, init, xs, dim, reverse = _named(
        args, kwargs, combine_fn=..., init=..., xs=..., dim=0, reverse=False
    )
    first, kind = pytree.tree_flatten(init)
    leaves, form = pytree.tree_flatten(xs)
    if not leaves:
        return init, []
    call = Higher(recording, "torch._higher_order_ops.scan")
    found: list[Any] = []

    def step(carry, slices):
        new, out = combine(pytree.tree_unflatten(carry, kind), pytree.tree_unflatten(slices, form))
        flat, spec = pytree.tree_flatten(out)
        found[:] = [spec]
        return pytree.tree_leaves(new), flat

    result = scanned(call, step, first, leaves, dim % leaves[0].dim(), reverse)
    ends, outs = result[: len(first)], result[len(first) :]
    return pytree.tree_unflatten(ends, kind), pytree.tree_unflatten(outs, found[0])


def scan_op(recording: Recording, original, args, kwargs):
    """The operator beneath: flat lists, always along the first axis."""
    combine, init, xs, more = _named(
        args, kwargs, combine_fn=..., init=..., xs=..., additional_inputs=()
    )
    call = Higher(recording, "torch.ops.higher_order.scan")

    def step(carry, slices):
        found = list(combine(*carry, *slices, *more))
        return found[: len(init)], found[len(init) :]

    return scanned(call, step, list(init), list(xs))


def mapped(recording: Recording, original, args, kwargs):
    f, xs, *more = args
    call = Higher(recording, "torch._higher_order_ops.map")
    leaves, form = pytree.tree_flatten(xs)
    return _each(call, lambda *slices: f(pytree.tree_unflatten(slices, form), *more), leaves)


def map_op(recording: Recording, original, args, kwargs):
    f, xs, more = _named(args, kwargs, f=..., xs=..., pos_args=())
    call = Higher(recording, "torch.ops.higher_order.map_impl")
    return _each(call, lambda *slices: f(*slices, *more), list(xs))


def _each(call: Higher, function: Callable, xs: list[torch.Tensor]) -> Any:
    found: list[Any] = []

    def step(carry, slices):
        flat, spec = pytree.tree_flatten(function(*slices))
        found[:] = [spec]
        return [], flat

    outs = scanned(call, step, [], xs)
    return pytree.tree_unflatten(outs, found[0])


def associative_scan(recording: Recording, original, args, kwargs):
    """The first element is its own result; a flag goes round to know it."""
    combine, xs, dim, reverse = _named(
        args, kwargs, combine_fn=..., xs=..., dim=..., reverse=False, combine_mode="pointwise"
    )[:4]
    leaves, form = pytree.tree_flatten(xs)
    axis = dim % leaves[0].dim()
    call = Higher(recording, "torch._higher_order_ops.associative_scan")

    def step(carry, slices):
        begun, before = carry[0], carry[1:]
        both = combine(pytree.tree_unflatten(before, form), pytree.tree_unflatten(slices, form))
        new = [torch.where(begun, b, x) for b, x in zip(pytree.tree_leaves(both), slices)]
        return [torch.ones_like(begun), *new], new

    start = [torch.tensor(False), *(x.select(axis, 0) for x in leaves)]
    result = scanned(call, step, start, leaves, axis, reverse)
    return pytree.tree_unflatten(result[1 + len(leaves) :], form)


def vmap(recording: Recording, original, args, kwargs):
    """Slice by slice, which is what vmap means, whatever the function does."""
    from torch._functorch import vmap as functorch

    func, in_dims, out_dims, randomness, _, *given = args
    call = Higher(recording, "torch.vmap")
    if randomness == "different":
        call.refuse("random numbers of its own for every slice")
    _, places, flat, form = functorch._process_batched_inputs(in_dims, tuple(given), func)
    moving = [i for i, axis in enumerate(places) if axis is not None]
    xs = [flat[i] if places[i] == 0 else flat[i].movedim(places[i], 0) for i in moving]

    def function(*slices):
        own = list(flat)
        for i, tensor in zip(moving, slices):
            own[i] = tensor
        return func(*pytree.tree_unflatten(own, form), **kwargs)

    result = _each(call, function, xs)
    leaves, spec = pytree.tree_flatten(result)
    if isinstance(out_dims, int):
        axes = [out_dims] * len(leaves)
    else:
        axes = pytree.tree_leaves(out_dims)
    if len(axes) != len(leaves) or any(axis is None for axis in axes):
        call.refuse("out_dims has to name an axis for every output")
    moved = [t if axis == 0 else t.movedim(0, axis) for t, axis in zip(leaves, axes)]
    return pytree.tree_unflatten(moved, spec)


def functional_call(recording: Recording, original, args, kwargs):
    """PyTorch refuses it while tracing, and model libraries have to hear that this is tracing."""
    from torch.nn.utils import stateless

    module, tensors, given, named, tie, strict = _named(
        args, kwargs, module=..., parameters_and_buffers=..., args=None, kwargs=None,
        tie_weights=True, strict=False,
    )  # fmt: skip
    given = () if given is None else given if isinstance(given, tuple) else (given,)
    with stateless._reparametrize_module(module, tensors, tie_weights=tie, strict=strict):
        return module(*given, **(named or {}))


def _named(args: tuple, kwargs: dict, /, **parameters: Any) -> list[Any]:
    """Arguments in the order of the parameters, with their defaults."""
    given = {**parameters, **dict(zip(parameters, args)), **kwargs}
    return [given[name] for name in parameters]


# What only makes sense backwards.


def _refused(target: str) -> Callable:
    def hook(recording: Recording, original, args, kwargs):
        raise Unsupported(
            f"{target} differentiates, and a graph for inference has no gradients",
            where=recording.where(),
            hint="compute the derivative by hand, or leave it out of forward",
        )

    return hook


def _table() -> dict[Any, Callable]:
    from torch import _higher_order_ops as higher
    from torch._functorch import eager_transforms
    from torch._functorch import vmap as functorch
    from torch.nn.utils import stateless

    return {
        higher.cond: cond,
        higher.while_loop: while_loop,
        higher.scan: scan,
        higher.map: mapped,
        higher.associative_scan: associative_scan,
        functorch.vmap_impl: vmap,
        stateless._functional_call: functional_call,
        eager_transforms.grad_and_value_impl: _refused("torch.func.grad"),
        eager_transforms._vjp_with_argnums: _refused("torch.func.vjp"),
        eager_transforms._jvp_with_argnums: _refused("torch.func.jvp"),
        torch.autograd.grad: _refused("torch.autograd.grad"),
        torch.autograd.backward: _refused("torch.Tensor.backward"),
    }


# The operators beneath, as a module that torch.export made calls them.
OPERATORS: dict[str, Callable] = {
    "higher_order::cond": cond,
    "higher_order::while_loop": while_loop,
    "higher_order::scan": scan_op,
    "higher_order::map_impl": map_op,
}


def hooks(recording: Recording) -> dict[Any, Callable]:
    """What to hook of plain Python functions: function -> handler."""
    return {function: _hook(recording, do) for function, do in _table().items()}


def _hook(recording: Recording, do: Callable) -> Callable:
    def hook(original, args, kwargs):
        if recording.busy:
            return original(*args, **kwargs)
        try:
            return do(recording, original, args, kwargs)
        except HxError as e:
            if e.where is None:
                e.where = recording.where()
            raise

    return hook


def arrived(do: Callable) -> Callable:
    """The same for what arrives at a door of torch."""

    def action(recording, key, func, args, kwargs, door):
        recording.busy = False
        try:
            with door:
                return do(recording, func, args, kwargs)
        finally:
            recording.busy = True

    return action
