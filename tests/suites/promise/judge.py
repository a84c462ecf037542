"""One model: its export with the proof that users get, and its file beside it by brute force."""

from __future__ import annotations

import dataclasses
import tempfile
import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from hx.proof import file_proof
from hx.proof.differences import compare
from hx.proof.sessions import open_file
from hx.saving import model_file

from ..attempt import _registry, copied, first_line
from ..random_models.judge import _shaky
from .drawing import TIED, plans
from .listing import Listed, named

VERDICTS = ("right", "promised", "told", "refused", "stops", "crashed", "silent")
BAD = ("silent", "crashed", "stops")
CLOSE, CLOSE_IN_MEAN, FLOOR = (
    1e-4,
    2.5e-5,
    1e-5,
)  # of the largest value: rounding, as in random_models
LOOSE = {torch.float16: 4e-3, torch.bfloat16: 3e-2}
ROUNDED = ("normal", "large", "small", "spike", "positive")  # values that no question meets exactly


@dataclass
class Verdict:
    """Verdict on one model, with the evidence for it."""

    kind: str
    detail: str = ""
    at: str = ""
    tried: int = 0
    outside: int = 0  # inputs that the model takes, and the promise leaves out
    rounding: list[str] = field(default_factory=list)  # differences by rounding alone
    runtime: list[str] = field(default_factory=list)  # faults of onnxruntime


@dataclass
class Trial:
    """Inputs that the model takes, and its results."""

    at: str
    values: str
    tensors: dict[str, torch.Tensor]
    expected: list[Any]


def measure(name: str) -> dict[str, Any]:
    """Return the verdict on one model, as data."""
    start = time.perf_counter()
    listed = named(name)
    out: dict[str, Any] = {"model": name}
    with tempfile.TemporaryDirectory(prefix="hx-promise-") as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            path = Path(folder, "model.onnx")
            program = exported(listed, path)
        except Exception as error:
            verdict = _of_error(error)
        else:
            out["export"] = round(time.perf_counter() - start, 2)
            out["promised"] = program.report.promised
            out["findings"] = [f"{e.level}: {e}" for e in program.report.findings]
            verdict = judged(listed, program, path)
    return {**out, **dataclasses.asdict(verdict), "seconds": round(time.perf_counter() - start, 2)}


def _of_error(error: Exception) -> Verdict:
    import hx

    kind = "refused" if isinstance(error, hx.HxError) else "crashed"
    return Verdict(kind, f"{type(error).__name__}: {error}")


def exported(listed: Listed, path: Path) -> Any:
    """Export a model as users do, with every named size free."""
    import hx

    tensors = listed.recorded()
    args = listed.pack(*copied(tuple(tensors.values())))
    return hx.export(listed.make(), args, path, dynamic=_dynamic(listed), packs=_registry())


def _leaf_names(listed: Listed) -> dict[str, str]:
    """Names in the graph of the inputs, which may be nested in the model's arguments."""
    from hx.recording.prepare import prepare

    tensors = listed.recorded()
    args = listed.pack(*tensors.values())
    request, _ = prepare(listed.make(), args, {}, None, None, lambda *_: {})
    known = {tensor.data_ptr(): name for name, tensor in request.call.tensors.items()}
    return {name: known[tensor.data_ptr()] for name, tensor in tensors.items()}


def _dynamic(listed: Listed) -> dict[str, dict[int, str]] | None:
    names = _leaf_names(listed)
    return {names[name]: axes for name, axes in listed.axes.items() if axes} or None


def judged(listed: Listed, program: Any, path: Path) -> Verdict:
    """Compare a file with the model at many sizes and with several kinds of values."""
    from hx import UsageError

    verdict = Verdict("promised" if program.report.promised else "right")
    names, wanted = _leaf_names(listed), {each["name"] for each in program.report.inputs}
    chance, tied = _random_outputs(listed), () if listed.ties else TIED
    skeleton = model_file.skeleton(path)
    with torch.no_grad():
        for place, (sizes, values) in enumerate(plans(listed.name, listed.inputs, listed.sizes)):
            trial = None if values in tied else _trial(listed, sizes, values, 100 + place)
            if trial is None:
                continue
            feeds = {names[k]: v for k, v in copied(trial.tensors).items() if names[k] in wanted}
            try:
                results = _leaves(program.run(feeds))
                problem = _problem(skeleton, feeds, results, trial.expected, chance)
            except UsageError as error:
                if "the file is right for" in str(error):
                    verdict.outside += 1
                    continue
                results, problem = [], f"does not run: {first_line(error)}; {error.why}"[:400]
            verdict.tried += 1
            if not problem:
                continue
            if results and _is_rounding(listed, trial, results, chance):
                verdict.rounding.append(trial.at)
            elif results and _is_runtime(path, feeds, trial):
                verdict.runtime.append(trial.at)
            elif verdict.kind in ("right", "promised"):
                verdict = dataclasses.replace(verdict, detail=problem, at=trial.at)
                verdict.kind = _level(program) or ("silent" if results else "stops")
    if not verdict.tried:
        raise RuntimeError(f"{listed.name}: the model takes no inputs, or none are promised")
    return verdict


def _trial(listed: Listed, sizes: dict[str, int], values: str, seed: int) -> Trial | None:
    """Run a new model; None if it does not take these inputs."""
    tensors = listed.drawn(sizes, values, seed)
    args = listed.pack(*copied(tuple(tensors.values())))
    model = listed.make()
    torch.manual_seed(seed)
    try:
        expected = _leaves(model(*args))
    except Exception:  # the model's own error: it may raise anything
        return None
    at = f"{values} values at {', '.join(f'{k}={v}' for k, v in sizes.items())} (seed {seed})"
    return Trial(at, values, tensors, expected)


def _leaves(result: Any) -> list[Any]:
    from hx.packs import nesting

    numbers = (torch.Tensor, bool, int, float)
    found = [leaf for _, leaf in nesting.leaves(result, "") if isinstance(leaf, numbers)]
    return [leaf.detach().clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in found]


def _random_outputs(listed: Listed) -> set[int]:
    """Places of the outputs that two runs on equal inputs do not share."""
    sizes = {word: size.recorded for word, size in listed.sizes.items()}
    one, other = (_leaves_with_seed(listed, sizes, seed) for seed in (1, 2))
    return {
        i
        for i, (a, b) in enumerate(zip(one, other))
        if isinstance(a, torch.Tensor) and not torch.equal(a.nan_to_num(), b.nan_to_num())
    }


def _leaves_with_seed(listed: Listed, sizes: dict[str, int], seed: int) -> list[Any]:
    args = listed.pack(*copied(tuple(listed.drawn(sizes, "normal", 0).values())))
    model = listed.make()
    torch.manual_seed(seed)
    with torch.no_grad():
        return _leaves(model(*args))


def _problem(
    skeleton: Any, feeds: dict[str, Any], results: list[Any], expected: list[Any], chance: set[int]
) -> str:
    """Return how results differ by more than rounding, or "" if they do not."""
    from hx.proof.declared import Sizes
    from hx.proof.differences.allowance import longest_reduction

    if len(results) != len(expected):
        return f"{len(results)} outputs for {len(expected)}"
    sizes = Sizes()
    for value in skeleton.graph.input:
        sizes.check("", value, file_proof.graph_tensor(feeds[value.name]).shape)
    depth, longest = open_file.depth(skeleton), longest_reduction(skeleton, sizes.values)
    for place, (got, want) in enumerate(zip(results, expected)):
        mine, real = file_proof.graph_tensor(got), file_proof.graph_tensor(want)
        if place in chance:
            if (mine.shape, mine.dtype) != (real.shape, real.dtype):
                return f"output {place}: {list(mine.shape)} for {list(real.shape)}"
            continue
        found = file_proof.compared(mine, want, depth, longest=longest)
        if found.problem and real.is_floating_point() and mine.dtype == real.dtype:
            allowed = compare.Tolerance.for_dtype(real.dtype, depth, longest=longest)
            share = max(allowed.share, LOOSE.get(real.dtype, CLOSE))
            mean = max(allowed.mean, LOOSE.get(real.dtype, CLOSE) / 4)
            allowed = dataclasses.replace(allowed, share=share, floor=FLOOR, mean=mean)
            found = compare.difference(mine, real, allowed)
        if found.problem:
            return f"output {place}: {found.problem}; {found.got} for {found.want} at {found.worst}"
    return ""


def _is_rounding(listed: Listed, trial: Trial, results: list[Any], chance: set[int]) -> bool:
    """Return True if results are as near to the model in float64 as the model's own.

    Or, where no value meets a question exactly, if the model's results move as much when its
    inputs move by a rounding.
    """
    mine, real = (list(map(file_proof.graph_tensor, each)) for each in (results, trial.expected))
    if chance or [t.shape for t in mine] != [t.shape for t in real]:
        return False
    if _is_as_near(listed, trial, mine, real):
        return True

    def run(*tensors: torch.Tensor) -> Any:
        return listed.make()(*listed.pack(*tensors))

    return trial.values in ROUNDED and _shaky(run, trial.tensors, mine, real)


def _is_as_near(listed: Listed, trial: Trial, mine: list, real: list) -> bool:
    def wide(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.double() if tensor.is_floating_point() else tensor

    model = listed.make()
    if isinstance(model, torch.nn.Module):
        model = model.double()
    try:
        exact = _leaves(model(*listed.pack(*map(wide, copied(tuple(trial.tensors.values()))))))
    except Exception:  # it may have no float64 version
        return False
    if len(exact) != len(real):
        return False
    return all(
        torch.equal(a, b)
        or (b.is_floating_point() and compare.as_near(a, b, file_proof.graph_tensor(c)))
        for a, b, c in zip(mine, real, exact)
    )


def _is_runtime(path: Path, feeds: dict[str, torch.Tensor], trial: Trial) -> bool:
    """Return True if onnx's reference evaluator gives the model's results for the file."""
    from hx.proof.sessions.evaluator import agrees

    graph = {name: file_proof.graph_tensor(tensor) for name, tensor in feeds.items()}
    expected = [file_proof.graph_tensor(each) for each in trial.expected]
    return agrees(path, file_proof.Case(trial.at, graph, expected))


def _level(program: Any) -> str:
    """Return "told" if the report has a finding that admits differences."""
    from hx.findings import CHECKED, OPEN

    def admits(finding: Any) -> bool:
        at_a_line = finding.level == CHECKED and bool(finding.place)
        return finding.level == OPEN or at_a_line

    return "told" if any(map(admits, program.report.findings)) else ""
