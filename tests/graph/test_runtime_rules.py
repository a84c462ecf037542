"""The table of rules for onnxruntime: each rule is needed, and all are applied in one walk."""

from __future__ import annotations

import pytest
import torch
import warm_python
from torch.nn import functional as F

import hx
from hx.graph import runtime_rules
from hx.graph.runtime_rules.rule import Rule, changed
from hx.ir.value import Body, Node, Value


def others(name):
    kept = tuple(rule for rule in runtime_rules.RULES if rule.name != name)
    assert len(kept) == len(runtime_rules.RULES) - 1
    return kept


def scaled(x):
    return x @ x.mT / 3


def by_vector(x, v):
    return x.mT @ v


def downwards(x):
    return x[torch.arange(x.shape[0] - 1, -1, -1)]


def channels_last(x):
    return F.interpolate(x.permute(0, 3, 1, 2), size=(24, 20), mode="bicubic").permute(0, 2, 3, 1)


def quotients(x, y):
    return torch.div(1, x, rounding_mode="trunc") * y


FAULTS = {
    "float64-scaling": (scaled, [torch.randn(2, 33, 33, dtype=torch.float64)], None),
    "product-with-vector": (by_vector, [torch.randn(2, 5, 3), torch.randn(5)], None),
    "range-gather": (downwards, [torch.arange(8.0)], {"x": {0: "n"}}),
    "resize-layout": (channels_last, [torch.rand(2, 12, 10, 3)], None),
    "integer-division": (quotients, [torch.tensor([2, 3, 5]), torch.tensor([4, 9, 1])], None),
}

# This fault ends the process.
TRANSPOSED = """
import torch, hx
from hx.graph import runtime_rules

if {without}:
    kept = tuple(rule for rule in runtime_rules.RULES if rule.name != "transposed-product")
    runtime_rules.RULES = kept
model = torch.nn.Linear(8, 8, bias=False).half()
x = torch.randn(8, 8, 8).half()
program = hx.export(lambda x: model(x.permute(1, 2, 0)), x, opset=17, verify=False)
program.run(x)
print("through")
"""


def is_right(model, inputs, dynamic) -> bool:
    program = hx.export(model, inputs, verify=False, dynamic=dynamic)
    expected = model(*inputs)
    exact = expected.dtype == torch.float64
    try:
        torch.testing.assert_close(
            program.run(*inputs), expected, rtol=1e-12 if exact else 1e-4, atol=0 if exact else 1e-5
        )
    except (AssertionError, hx.errors.HxError):
        return False
    return True


@pytest.mark.parametrize("name", FAULTS)
def test_a_rule_is_needed(name, monkeypatch):
    torch.manual_seed(0)
    assert is_right(*FAULTS[name])
    monkeypatch.setattr(runtime_rules, "RULES", others(name))
    assert not is_right(*FAULTS[name])


@pytest.mark.parametrize("without", [False, True])
def test_the_rule_for_transposed_products_is_needed(without):
    done = warm_python.run_code(TRANSPOSED.format(without=without))
    assert ("through" in done.stdout) != without, done.stderr[-2000:]


def test_each_rule_has_a_fault_that_shows_it():
    assert {rule.name for rule in runtime_rules.RULES} == {*FAULTS, "transposed-product"}
    assert all(rule.ops and rule.reason for rule in runtime_rules.RULES)


def negated(node, scope):
    between = Value(torch.float32, node.outputs[0].shape)
    return [changed(node, outputs=[between]), Node("Neg", "", [between], node.outputs, {})]


def test_rules_reach_the_bodies_of_a_node_and_leave_the_node_as_it_was():
    x, inner, result = (Value(torch.float32, (2,)) for _ in range(3))
    absolute = Node("Abs", "", [x], [inner], {})
    body = Body([x], [inner], [absolute])
    branch = Node("If", "", [], [result], {"then_branch": body})
    other = Node("Abs", "com.acme", [x], [Value(torch.float32, (2,))], {})
    rule = Rule("negated", ("Abs",), "shows what is rewritten", negated)
    assert runtime_rules.apply([branch, other], (rule,)) == [branch, other]
    assert [node.op for node in body.nodes] == ["Abs", "Neg"]
    assert body.nodes[1].outputs == [inner] == absolute.outputs


def test_the_first_rule_that_applies_is_the_only_one():
    x, result = Value(torch.float32, (2,)), Value(torch.float32, (2,))
    node = Node("Abs", "", [x], [result], {})
    declines = Rule("declines", ("Abs",), "applies to nothing", lambda node, scope: None)
    first = Rule("first", ("Abs",), "removes the node", lambda node, scope: [])
    second = Rule("second", ("Abs",), "is never asked", negated)
    assert runtime_rules.apply([node], (declines, first, second)) == []


def test_a_rule_sees_the_nodes_around_its_own_before_any_is_rewritten():
    x, first, second = (Value(torch.float32, (2,)) for _ in range(3))
    makes = Node("Abs", "", [x], [first], {})
    reads = Node("Abs", "", [first], [second], {})
    seen = []

    def look(node, scope):
        seen.append((scope.maker(node.inputs[0]), scope.readers(node.outputs[0])))
        return negated(node, scope)

    runtime_rules.apply([makes, reads], (Rule("look", ("Abs",), "looks around", look),))
    assert seen == [(None, [reads]), (makes, [])]
