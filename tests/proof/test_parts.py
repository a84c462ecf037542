"""Where rounding decides what comes out, a graph is proved part by part."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import warm_python
from called import Plain, asked

import hx
from hx import converter
from hx.budget import BUDGET
from hx.errors import VerificationError, Where
from hx.graph import runtime_rules
from hx.ir.escapes import Escape
from hx.ir.input_grammar import Limits
from hx.ir.size_moves import Move
from hx.proof import proving
from hx.proof.differences import parts
from hx.proof.file_proof import Case, prove
from hx.proof.proof import CaseCheck, OutputCheck, Proof
from hx.proof.sessions.open_file import OpenFile

ROWS = torch.randn(500, 40)  # softmax of a row sums to 1, but for a unit in the last place


def at_least_one(x):
    return x.softmax(-1).sum(-1) >= 1.0


def kept(x):
    """How many rows there are depends on the rounding of each."""
    y = x.softmax(-1)
    return y[y.sum(-1) >= 1.0] * 2, x + 1


@pytest.mark.parametrize("function", [at_least_one, kept])
def test_a_decision_that_rounding_makes_is_no_mistake(function, tmp_path):
    program = hx.export(Plain(function), ROWS, tmp_path / "m.onnx", dynamic={"xs_0": {0: "n"}})
    told = program.proof.summary()
    assert (
        program.proof.cases[0].by_parts
        and "part by part on " in told
        and "rounding decides at" in told
    )
    assert "test_parts.py" in told
    assert [case.name for case in program.proof.cases if case.by_parts]
    assert [path.name for path in tmp_path.iterdir()] == ["m.onnx"]


def in_chunks(x):
    """Behind a loop, values of the file have other names than those of a recording at the case."""
    rows = torch.cat([x[i : i + 64].softmax(-1) for i in range(0, x.shape[0], 64)])
    return at_least_one(rows)


def test_behind_a_loop_it_is_proved_part_by_part_too():
    program = hx.export(Plain(in_chunks), ROWS, None, dynamic={"xs_0": {0: "n"}})
    assert "Loop" in {node.op_type for node in program.model.graph}
    assert [case.name for case in program.proof.cases if case.by_parts]


def of_many_rows(x):
    """With an axis less for one row, so that no graph has both ways."""
    return at_least_one(x)[0] if x.shape[0] == 1 else at_least_one(x)


def test_what_a_promise_rules_out_hides_nothing_that_rounding_decides(tmp_path):
    path = tmp_path / "m.onnx"
    subject = hx.export(of_many_rows, ROWS, path, dynamic={"x": {0: "n"}})._subject
    assert [*subject.promised] == ["n"]
    cases = sorted(subject.cases, key=lambda case: case.name != "n=1")
    proof = prove(path, cases)
    looked_at = parts.Parts(subject, OpenFile(path), path)
    proving._by_parts(subject, looked_at, cases, proof)
    assert [check.name for check in proof.cases if not check.ok] == ["n=1"]
    assert any(check.by_parts for check in proof.cases)


def test_few_cases_beyond_one_side_of_a_question_are_proved_part_by_part():
    subject = hx.export(lambda x: x * 2, torch.ones(8, 3), dynamic={"x": {0: "n"}})._subject
    escape, asked = Escape("branch", Where("model.py", 3), "n > 8"), []
    sizes = [n for n in range(1, 17) if n != 8]
    cases = [Case(f"n={n}", {"x": torch.ones(n, 3)}, []) for n in sizes]
    limits = {True: Limits(0, 8), False: Limits(8)}
    subject.beyond.clear()
    for case, n in zip(cases, sizes):
        subject.beyond[case.name] = escape, Move({"n": n}, {"n": limits[n > 8]})
    off = OutputCheck(name="y", dtype="float32", shape=[], problem="off")
    proof = Proof([CaseCheck(case.name, [off]) for case in cases])
    looked_at: Any = SimpleNamespace(
        what_decides=lambda case, *_: asked.append(case.name) or parts.NOTHING
    )
    proving._by_parts(subject, looked_at, cases, proof)
    few = BUDGET.questions.wrong_parts
    assert asked == [f"n={n}" for n in (*sizes[:few], *sizes[7 : 7 + few])]


def test_verify_looks_at_the_parts_too(tmp_path):
    body = "    def forward(self, x):\n        return x.softmax(-1).sum(-1) >= 1.0\n"
    (tmp_path / "model.py").write_text(f"import torch\nclass Above(torch.nn.Module):\n{body}")
    done = {}
    for words in (
        ["export", "model.py:Above", "-o", "m.onnx"],
        ["verify", "m.onnx", "model.py:Above"],
    ):
        done[words[0]] = warm_python.run("hx", *words, "-i", "x=float32[500,40]", cwd=tmp_path)
    assert [each.returncode for each in done.values()] == [0, 0], done
    assert "part by part" in done["verify"].stdout


@converter("torch.ge")
def other_side(op, input, other):
    return op.Greater(input, op.constant(other, input.dtype))


@converter("torch.Tensor.softmax")
def another_softmax(op, input, dim):
    return op.Mul(op.Softmax(input, axis=dim), 1 + 1e-4)


@pytest.mark.parametrize("wrong", [other_side, another_softmax])
def test_a_mistake_beside_such_a_decision_is_found(wrong, tmp_path):
    with pytest.raises(VerificationError):
        asked(Plain(at_least_one), ROWS, wrong, path=tmp_path / "m.onnx")
    assert not list(tmp_path.iterdir())


def test_a_shape_that_sizes_decide_is_not_left_to_rounding(monkeypatch):
    """onnxruntime may join a Range and a Gather to what reads -1 as the last: nothing comes out."""
    _without_rule(monkeypatch, "range-gather")

    def turned(x):
        return x[torch.arange(x.shape[0] - 1, -1, -1)]

    x = torch.randn(8)
    try:
        program = hx.export(turned, x, dynamic={"x": {0: "n"}})
    except VerificationError as wrong:
        assert "the shape is [0], expected [8]" in str(wrong)
    else:
        assert torch.equal(program.run(x), turned(x))


def _without_rule(monkeypatch, name):
    others = tuple(rule for rule in runtime_rules.RULES if rule.name != name)
    assert len(others) == len(runtime_rules.RULES) - 1
    monkeypatch.setattr(runtime_rules, "RULES", others)


def _wrongly_optimized(monkeypatch):
    """onnxruntime makes another division of a product with what one was divided by."""
    _without_rule(monkeypatch, "integer-division")


def test_whole_numbers_are_not_left_to_rounding(monkeypatch):
    _wrongly_optimized(monkeypatch)

    def counted(x, y):
        return (torch.div(1, x, rounding_mode="trunc") * y).to(torch.int32)

    numbers = torch.tensor([2, 3, 5]), torch.tensor([4, 9, 1])
    with pytest.raises(VerificationError):
        hx.export(counted, numbers)


def test_a_mistake_of_the_optimizer_is_told_from_rounding(monkeypatch, tmp_path):
    def counted(x):
        return torch.div(1, x, rounding_mode="trunc") * x

    path, numbers = tmp_path / "m.onnx", [torch.tensor([2, 3, n]) for n in (4, 5, 6)]
    cases = [Case("drawn", {"x": x}, [counted(x)]) for x in numbers]
    hx.export(counted, numbers[0], path)
    assert not parts._by_optimizer(OpenFile(path), cases)
    _wrongly_optimized(monkeypatch)
    hx.export(counted, numbers[0], path, verify=False)
    assert parts._by_optimizer(OpenFile(path), cases)


def test_a_number_that_was_baked_in_beside_such_a_decision_is_found():
    def shifted(x):
        return at_least_one(x), x + math.atan(x.max())

    with pytest.raises(VerificationError, match=r"torch\.Tensor\.max|left the graph"):
        hx.export(Plain(shifted), ROWS)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: torch.log(torch.sigmoid(x)),
        lambda x: 1 / torch.sigmoid(x),
        lambda x: torch.sigmoid(x) * torch.exp(-x),
    ],
)
def test_small_values_that_a_later_step_lives_on_are_no_rounding(function):
    """onnxruntime's sigmoid is 0 far below: nothing beside the largest, and all of its logarithm."""
    x = torch.linspace(-40, 1, 300)
    with pytest.raises(VerificationError):
        hx.export(Plain(function), x, None)
    assert hx.export(Plain(function), torch.linspace(-5, 5, 300), None).proof.ok


def test_a_model_that_magnifies_every_rounding_is_proved_by_its_parts():
    def chaotic(x):
        for _ in range(30):
            x = 3.99 * x * (1 - x)
        return x

    program = hx.export(Plain(chaotic), torch.rand(400) * 0.8 + 0.1, None)
    assert program.proof.ok


def test_the_report_tells_how_far_results_are_apart():
    program = hx.export(Plain(at_least_one), ROWS, None, dynamic={"xs_0": {0: "n"}})
    told = [each.text for each in program.report.findings if "part by part" in each.text]
    shares = [check.outputs[0].max_rel for check in program.proof.cases if check.by_parts]
    assert len(told) == 1 and told[0].endswith(f"the results differ by up to {max(shares):.0e}")
