"""The order of recipes: the search is driven with outcomes, and no model runs."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
import torch
from recipes_tried import recipe_name

import hx
from hx import ExportError, Registry, Unsupported, UsageError, VerificationError
from hx.errors import Differentiates, EscapeError, Where
from hx.ir import dynamic_axes
from hx.ir.knowledge import Knowledge
from hx.ir.outcome import OffersAnswers, OffersBranches, OffersLoops, Refused, Wrong
from hx.ir.recipe import EXPORTING, ONNX, TRACING, Branches, Leaks, Loops, Promise, Until
from hx.merging.branches.node_rows import too_many
from hx.merging.loops import Before
from hx.proof.proof import CaseCheck, Proof
from hx.recording.call_model import call_model
from hx.recording.calls.choices import Choices
from hx.recording.prepare import prepare
from hx.report import Report
from hx.report.sections import File
from hx.search.history import History
from hx.search.strategies import strategies

X = torch.arange(12.0).reshape(4, 3)
UNTIL = Until(("model.py", 7), on=True, truly=6)


def unsupported(**more):
    return Refused(Unsupported("no such thing in ONNX"), **more)


def raised():
    return Refused(ValueError("the model's own"))


def wrong(*cases, escapes=(), failed=(), **more):
    """A file that is right on the recorded inputs and wrong on the named ones."""
    checks = [CaseCheck("recorded"), *(CaseCheck(name, problem="other") for name in cases)]
    error = VerificationError("wrong", proof=Proof(checks))
    error.report = Report("model", File(opset=20, nodes=10), escapes=list(escapes))
    return Wrong(error, {name: {"x": X + i + 1} for i, name in enumerate(failed)}, **more)


def asking(model):
    """The escapes of a model that asks something of sizes or values."""
    return hx.scan(model, X, dynamic={"x": {0: "n"}}).escapes


class Search:
    """One search, with the names of its recipes."""

    def __init__(self, model=torch.relu, asked=()):
        request, _ = prepare(model, (X,), None, ["x"], {"x": {0: "n"}}, dynamic_axes.axes)
        self.history = History(Knowledge(asked=set(asked)))
        self._steps = strategies(request, self.history, lambda: Choices(Registry.standing(), 20))
        self.recipe, self.names = next(self._steps), []

    def after(self, *outcomes):
        """The name of the next recipe, or None at the end of the search."""
        for outcome in outcomes:
            assert self.recipe is not None
            self.names.append(recipe_name(self.recipe))
            if isinstance(outcome, Wrong):
                self.history.knowledge.wrong_sizes.append({"n": 9})
            self.history.add(self.recipe, outcome)
            try:
                self.recipe = self._steps.send(outcome)
            except StopIteration:
                self.recipe = None
        return None if self.recipe is None else recipe_name(self.recipe)


def test_what_is_refused_is_tried_once_if_the_model_asks_nothing():
    search, first = Search(), unsupported()
    assert recipe_name(search.recipe) == "plain"
    assert search.after(first) is None
    assert search.history.error_to_report() is first.error


def test_other_answers_are_tried_where_the_model_asked_for_them():
    search = Search(asked={TRACING, EXPORTING})
    names = [search.after(unsupported()) for _ in range(3)]
    assert names == ["answers:exporting plain", "answers:none plain", None]
    assert Search(asked={ONNX}).after(unsupported()) == "answers:all plain"
    assert Search(asked={EXPORTING}).after(unsupported()) == "answers:none plain"


def test_a_number_that_leaves_is_refused_with_other_answers_and_taken_in_the_end():
    search = Search(asked={TRACING})
    assert search.recipe.leaks is Leaks.OFFER and search.recipe.offers
    assert search.after(OffersAnswers()) == "answers:exporting plain"
    assert search.recipe.leaks is Leaks.REFUSE
    assert search.after(unsupported()) == "plain"
    assert search.recipe.leaks is Leaks.ACCEPT and search.history.speaks_for(search.recipe)
    led_to = unsupported()
    assert search.after(led_to) is None
    assert search.history.error_to_report() is led_to.error


def test_lines_that_may_end_loops_come_before_branches():
    search = Search()
    offer = OffersBranches(True, (UNTIL, replace(UNTIL, line=("model.py", 9))), frozenset())
    assert search.after(offer) == "until"
    assert search.after(unsupported()) == "until+counting"
    assert search.after(unsupported()) == "until"
    assert search.after(raised()) == "until-true"
    assert search.after(raised()) == "branches"
    assert search.after(unsupported()) == "unmerged plain"
    last = unsupported()
    assert search.after(last) is None
    assert search.history.error_to_report() is last.error


def test_few_true_rounds_are_recorded_with_more_of_everything():
    search = Search()
    search.after(OffersBranches(False, (replace(UNTIL, truly=3),), frozenset()))
    assert search.after(raised()) == "other-sizes until-true"
    assert search.recipe.inputs["x"].shape == (24, 3)
    assert search.recipe.also_proved["given"]["x"] is X


def test_one_true_round_is_no_loop():
    search = Search()
    search.after(OffersBranches(False, (replace(UNTIL, truly=1),), frozenset()))
    assert search.after(raised()) == "unmerged plain"


def test_other_exits_of_a_loop_are_disabled():
    search = Search()
    exits = ((("model.py", 8), False),)
    search.after(OffersBranches(False, (replace(UNTIL, breaks=exits),), frozenset()))
    assert search.after(unsupported(), unsupported()) == "no-breaks until-true"
    assert search.recipe.forced.by_line == dict(exits)


def offered_loops(search, **more):
    recipe = search.recipe.derived.with_flow(loops=Loops(Before([]), counting=("x",)))
    return OffersLoops(recipe, None, False, **more)


def test_loops_are_unfolded_and_then_count():
    search = Search()
    assert search.after(offered_loops(search)) == "loops"
    assert search.after(unsupported()) == "loops+unfolded"
    assert search.after(unsupported()) == "loops+counting"
    assert search.after(unsupported()) == "plain"  # nothing was asked: there is no reason to give


def test_a_wrong_loop_is_unfolded_only_if_it_may_run_zero_times():
    search = Search()
    search.after(offered_loops(search))
    assert search.after(wrong("fresh", may_run_zero_times=True)) == "loops+unfolded"
    search = Search()
    search.after(offered_loops(search))
    assert "unfolded" not in search.after(wrong("fresh"))


def test_numbered_loops_speak_for_those_without_numbers():
    search = Search()
    numbered = search.recipe.derived.with_flow(loops=Loops(Before([]), numbered=True))
    search.after(replace(offered_loops(search), numbered=numbered))
    search.after(unsupported(), unsupported())
    known = search.history.mark()
    assert search.after(unsupported()) == "numbered-loops"
    assert search.after(unsupported()) == "numbered-loops+unfolded"
    search.after(unsupported())
    assert search.history.mark() <= known


def test_loops_with_branches_are_tried_without_them():
    search = Search()
    offer = offered_loops(search)
    with_branches = offer.recipe.with_flow(branches=Branches())
    search.after(replace(offer, recipe=with_branches, asks_in_rounds=True))
    assert search.after(wrong("fresh")) == "formulas+loops+branches"
    assert search.after(wrong("fresh")) == "formulas+loops+branches"  # at the new wrong size
    assert search.after(wrong("fresh")) == "loops"
    assert search.after(unsupported()) == "unmerged plain"


def test_branches_are_not_tried_again_where_nothing_led_another_way():
    search = Search()
    offer = offered_loops(search)
    with_branches = offer.recipe.with_flow(branches=Branches())
    search.after(replace(offer, recipe=with_branches))
    assert search.after(unsupported(one_way=True)) == "loops+unfolded"


def test_numbers_that_follow_from_sizes_are_fitted_with_the_wrong_size_last():
    search = Search()
    assert search.after(wrong("n=9")) == "formulas"
    assert [sizes["n"] for sizes in search.recipe.flow.formulas] == [5, 6, 9, 15, 2]
    assert search.after(wrong("n=9")) == "formulas"
    assert [sizes["n"] for sizes in search.recipe.flow.formulas] == [5, 6, 9, 15, 9]
    assert search.after(wrong("n=9")) == "other-sizes plain"
    assert search.recipe.inputs["x"].shape[0] % 2 == 1


def test_in_the_end_it_may_be_promised_from_the_recorded_size_on():
    def at(rows):
        return replace(wrong(f"n={rows}"), failed={f"n={rows}": {"x": torch.ones(rows, 3)}})

    def last_of(outcome):
        search = Search()
        while search.after(outcome) is not None:
            pass
        return search.names[-1]

    assert last_of(at(2)) == "from-here-on plain"
    assert last_of(at(9)) != "from-here-on plain"


def padding(x):
    return torch.nn.functional.pad(x, (0, 0, 0, 4 - x.shape[0] % 4)) if x.shape[0] % 4 else x


def test_padding_hears_the_truth_on_lines_where_the_model_raises():
    search, lines = Search(), [("model.py", 3), ("model.py", 5)]
    assert search.after(wrong("n=5", escapes=asking(padding))) == "padded plain"
    assert search.recipe.padding.true_lines == frozenset()
    for count, line in enumerate(lines, 1):
        search.history.knowledge.padded_lines.append(line)
        assert search.after(raised()) == "padded plain"
        assert search.recipe.padding.true_lines == {*lines[:count]}
    assert search.after(raised()) == "other-sizes plain"  # there is no new line


@pytest.mark.parametrize("heard", [True, False])
def test_ways_that_a_padding_did_not_change_are_merged_once(heard):
    search, escapes = Search(), [*asking(padding), *asking(branching)]
    assert search.after(wrong("n=5", escapes=escapes, failed=["n=5"])) == "padded plain"
    if heard:
        search.history.knowledge.padded_lines.append(("model.py", 3))
    of_padded = wrong("n=5", escapes=escapes, failed=["n=5"])
    assert search.after(of_padded) == "padded branches-on-failed"
    names = [search.after(Refused(too_many()))]
    while names[-1] is not None:
        names.append(search.after(unsupported()))
    assert ("branches-on-failed" in names) is heard


def branching(x):
    return x * 2 if x.sum() > 0 else x - 1


def test_ways_of_inputs_that_failed_are_merged_in_the_end():
    search = Search()
    escapes = asking(branching)
    first = wrong("fresh", escapes=escapes, failed=["fresh"])
    assert search.after(first) == "formulas"
    last = search.after(unsupported())
    assert last == "other-sizes plain"
    assert search.after(unsupported()) == "branches-on-failed"
    (required,) = search.recipe.flow.branches.required
    assert torch.equal(required["x"], X + 1) and search.recipe.flow.branches.other_sizes
    assert search.after(unsupported()) is None
    assert search.history.error_to_report() is first.error


def test_a_value_that_leaves_under_strict_leads_to_branches():
    search = Search()
    error = EscapeError("1 value left the graph")
    error.report = Report("model", File(opset=20), escapes=asking(branching))
    assert search.after(Refused(error)) == "branches"
    assert search.recipe.flow.branches.other_sizes


def differentiated(x):
    with torch.enable_grad():
        x = x.clone().requires_grad_()
        return torch.autograd.grad(x.pow(3).sum(), x)[0]


def test_a_model_that_differentiates_is_traced():
    search = Search(differentiated)
    first = Refused(Differentiates("grad differentiates"))
    assert search.after(first) == "derivative plain"
    assert search.after(Refused(Unsupported("no sort of it"))) is None
    assert search.history.error_to_report() is first.error
    assert "no sort of it" in first.error.why


def test_why_nothing_was_merged_is_told():
    search = Search()
    offer = OffersBranches(True, (), frozenset())
    search.after(offer, unsupported(baked_at=Where("model.py", 12)))
    assert re.search(r"read at model.py:12 would be fixed", search.recipe.unmerged_reason)
    search = Search()
    lines = frozenset({("model.py", 3), ("model.py", 4)})
    search.after(OffersBranches(True, (), lines), unsupported())
    assert search.recipe.unmerged_reason.startswith(
        "the questions at model.py:3 and model.py:4 are asked again"
    )


def raised_by_a_model(problem):
    """Return the error of a model, raised while it ran."""

    def model():
        raise problem

    with pytest.raises(type(problem)) as found:
        call_model(model, (), {})
    return found.value


@pytest.mark.parametrize(
    ("first", "ends"),
    [
        (UsageError("no such input"), True),
        (ExportError("a full disk"), True),
        (Unsupported("no such operator"), False),
        (raised_by_a_model(ValueError("the model's own, which may be about tracing")), False),
        (ValueError("not the model's own"), True),
    ],
)
def test_some_errors_end_a_search_that_they_begin(first, ends):
    search = Search(asked={TRACING})
    assert search.history.ends_with(first) is ends
    search.after(unsupported())
    assert search.history.ends_with(first) is (type(first) is ExportError)  # the disk stays full


def test_an_error_of_a_model_that_asks_nothing_ends_the_search():
    assert Search().history.ends_with(ValueError("the model's own"))


def test_a_merge_that_is_wrong_at_smaller_sizes_alone_is_promised_in_the_end():
    search = Search()
    offer = OffersLoops(search.recipe.derived.with_flow(loops=Loops(Before([]))), None, False)
    assert search.after(offer) == "loops"
    few = wrong("n=1")
    few.failed["n=1"] = {"x": X[:1]}
    names = [search.after(few)]
    while search.recipe is not None:
        last = search.recipe
        names.append(search.after(unsupported()))
    assert last.promise is Promise.ONWARD and last.flow.loops is not None


def test_questions_that_are_asked_again_get_other_answers_in_turn():
    def often(x):
        for _ in range(4):
            x = x * 2 if x.sum() > 0 else x - 1
        return x

    search, last = Search(), None
    first = wrong("fresh", escapes=asking(often))
    while search.recipe is not None:
        last = search.recipe
        search.after(first if last.is_plain else unsupported())
    assert last is not None and last.flow.branches is not None and last.flow.branches.in_turn
