"""Merges driven with recordings made before: what they ask for, and what they make of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from tests.shared.lost_sizes import lost

from hx import Registry, Unsupported
from hx.ir import dynamic_axes
from hx.ir.recipe import Branches, Recipe, Until
from hx.merging import branches, formulas
from hx.merging.loops import until
from hx.merging.protocol import NotRecorded, RecordingWanted, Unmerged, carry_out
from hx.recording.prepare import prepare
from hx.recording.recorder import Recorder


class Traces:
    """Recordings of one function, which a merge is sent in the place of a run."""

    def __init__(self, model, x, dynamic=None):
        request, _ = prepare(model, (x,), None, ["x"], dynamic, dynamic_axes.axes)
        self.recipe = Recipe(request, request.call.tensors)
        self._recorder = Recorder(Registry.standing(), 20)
        self.wanted = []

    def record(self, recipe):
        return self._recorder.record(recipe)

    def reply(self, wanted):
        self.wanted.append(wanted)
        try:
            return self.record(wanted.recipe)
        except ValueError as problem:  # the model's own
            return NotRecorded(problem)


def operators(trace):
    return [node.op for node in trace.nodes]


def why_not(unmerged):
    assert isinstance(unmerged, Unmerged) and isinstance(unmerged.error, Unsupported)
    return str(unmerged.error)


def scaled(x):
    return x * lost(x.shape[0])


def unlike(x):
    return scaled(x).exp() if len(str(x.shape[0])) > 1 else scaled(x)


def with_formulas(model):
    traces = Traces(model, torch.randn(4, 2), {"x": {0: "n"}})
    sizes = [{"n": 4}, {"n": 5}, {"n": 12}, {"n": 9}, {"n": 15}, {"n": 2}]
    others = [replace(traces.recipe, inputs={"x": torch.randn(each["n"], 2)}) for each in sizes[1:]]
    first = traces.record(traces.recipe)
    return traces, formulas.merge(first, sizes, others)


def test_formulas_ask_for_each_size_and_put_it_into_the_graph():
    traces, merge = with_formulas(scaled)
    merged = carry_out(merge, traces.reply)
    assert [wanted.recipe.inputs["x"].shape[0] for wanted in traces.wanted] == [5, 12, 9, 15, 2]
    assert all(wanted.merged for wanted in traces.wanted)
    assert "Shape" in operators(merged)


def test_formulas_are_refused_where_other_operators_run():
    traces, merge = with_formulas(unlike)
    assert "change more than numbers" in why_not(carry_out(merge, traces.reply))
    assert len(traces.wanted) == 4


def test_formulas_do_without_the_smallest_size():
    traces, merge = with_formulas(scaled)
    wanted = next(merge)
    while wanted.recipe.inputs["x"].shape[0] > 2:
        wanted = merge.send(traces.reply(wanted))
    with pytest.raises(StopIteration) as ended:
        merge.send(NotRecorded(ValueError("not so few")))
    assert "Shape" in operators(ended.value.value)


def test_an_error_at_a_larger_size_ends_formulas():
    _, merge = with_formulas(scaled)
    next(merge)
    with pytest.raises(StopIteration) as ended:
        merge.send(NotRecorded(ValueError("not so many")))
    assert isinstance(ended.value.value.error, ValueError)


def halved(x):
    while (x.abs() > 1).any():
        x = x / 2
    return x


def until_small(model):
    traces = Traces(model, torch.tensor([20.0, -3.0]))
    line = traces.record(traces.recipe).questions[0].line
    recipe = traces.recipe.with_flow(until=Until(line, on=True))
    first = traces.record(recipe)
    return traces, until.merge(first)


def test_until_asks_for_few_rounds_and_writes_a_loop():
    traces, merge = until_small(halved)
    merged = carry_out(merge, traces.reply)
    assert [wanted.recipe.flow.until.times for wanted in traces.wanted] == [5, 1, 0]
    assert operators(merged).count("Loop") == 1


def test_until_may_do_without_no_round_but_not_without_one():
    traces, merge = until_small(halved)
    refuse = NotRecorded(ValueError("a stack of nothing"))
    assert "does not become one loop" in why_not(carry_out(merge, lambda wanted: refuse))
    traces, merge = until_small(halved)
    merged = carry_out(
        merge, lambda wanted: traces.reply(wanted) if wanted.recipe.flow.until.times else refuse
    )
    assert "Loop" in operators(merged)


def growing(x):
    step = 0
    while (x.abs() > 1).any():
        x = x / 2 if step % 2 else x.sqrt()
        step += 1
    return x


def test_until_is_refused_where_rounds_differ():
    traces, merge = until_small(growing)
    assert "does not become one loop" in why_not(carry_out(merge, traces.reply))


def doubled(x):
    return x * 2 if (x > 1).any() else x - 1


def both_ways(model, x, *variations):
    traces = Traces(model, x)
    inputs = tuple({"x": each} for each in variations)
    first = traces.record(traces.recipe.with_flow(branches=Branches(variations=inputs)))
    return traces, first, branches.merge(first)


def test_branches_ask_for_the_variations_and_write_an_if():
    traces, _, merge = both_ways(doubled, torch.ones(3), torch.full((3,), 5.0))
    assert "If" in operators(carry_out(merge, traces.reply))
    assert torch.equal(traces.wanted[0].recipe.inputs["x"], torch.full((3,), 5.0))


def test_a_way_that_no_variation_leads_is_heard():
    traces, _, merge = both_ways(doubled, torch.ones(3), torch.zeros(3))
    assert "If" in operators(carry_out(merge, traces.reply))
    assert [wanted.recipe.forced.first for wanted in traces.wanted] == [(), (True,)]


def test_a_way_on_which_the_model_raises_is_none():
    _, first, merge = both_ways(doubled, torch.ones(3), torch.zeros(3))
    found = carry_out(merge, lambda wanted: NotRecorded(RuntimeError("no such way")))
    assert found.graph is first.graph and found.recipe.flow.branches is None


def test_inputs_that_have_to_lead_another_way_and_do_not_are_refused():
    traces = Traces(doubled, torch.ones(3))
    required = Branches(required=({"x": torch.zeros(3)},))
    first = traces.record(traces.recipe.with_flow(branches=required))
    assert "one graph" in why_not(carry_out(branches.merge(first), traces.reply))


def read(x):
    return x * float(str(x.tolist()[0])) if (x > 1).any() else x - 1


def test_a_number_of_other_data_on_a_side_is_the_result():
    traces, _, merge = both_ways(read, torch.ones(3), torch.zeros(3))
    found = carry_out(merge, traces.reply)
    assert found.baked_at is not None and "tolist" in why_not(found)


def test_where_no_input_asks_anything_nothing_is_wanted():
    traces, first, merge = both_ways(lambda x: x + 1, torch.ones(3), torch.zeros(3))
    found = carry_out(merge, traces.reply)
    assert found.graph is first.graph and found.recipe.flow.branches is None
    assert not traces.wanted


def checked(x):
    if (x > 1).any():
        raise ValueError("too large")
    return x - 1


@pytest.mark.parametrize(
    "merge_of",
    [
        lambda: with_formulas(scaled),
        lambda: until_small(halved),
        lambda: both_ways(doubled, torch.ones(3), torch.full((3,), 5.0))[::2],
        lambda: both_ways(checked, torch.ones(3), torch.zeros(3))[::2],
    ],
    ids=["formulas", "until", "branches", "one-way"],
)
def test_a_merge_leaves_the_recordings_as_they_are(merge_of, monkeypatch):
    given = []

    def recorded(self, recipe, record=Recorder.record):
        trace = record(self, recipe)
        given.append((trace, state(trace)))
        return trace

    monkeypatch.setattr(Recorder, "record", recorded)
    traces, merge = merge_of()
    assert not isinstance(carry_out(merge, traces.reply), Unmerged)
    assert given and all(state(trace) == before for trace, before in given)


def state(trace):
    nodes = [(id(node), node.op, [*map(id, node.inputs)]) for node in trace.nodes]
    values = [(name, id(value), value.shape) for name, value in trace.outputs]
    asked = [(id(question.value), question.asked) for question in trace.questions]
    told = [str(escape) for escape in trace.escapes.values()]
    domains = dict(trace.graph.dialect.domains)
    return nodes, values, asked, told, len(trace.findings), domains, trace.recipe


def test_a_wanted_recording_is_a_value():
    traces = Traces(doubled, torch.ones(3))
    assert RecordingWanted(traces.recipe) == RecordingWanted(traces.recipe, merged=False)
