"""The recipes that the search tries for each of some sixty small models, in order.

Each row of the table of strategies is there at least once. An entry reads `recipe: outcome`; the
names come from tests/shared/recipes_tried.py. A change of the search that changes an entry is a
change for users: other recordings, other files, or longer exports.
"""

from __future__ import annotations

import pytest
import torch
from tests.shared import recipes_tried, search_models

import hx

EXPECTED: dict[str, list[str]] = {
    "arithmetic": ["plain: right"],
    "threshold_on_a_size": ["plain: right"],
    "branch_that_is_not_proved": ["plain: offers branches", "branches: right"],
    "loop_that_is_not_proved": ["plain: right"],
    "branch_with_every_node_checked": [
        "plain: wrong",
        "other-sizes plain: wrong",
        "other-sizes branches-on-failed: right",
    ],
    "output_left_out_for_tracers": [
        "plain: wrong",
        "formulas: unsupported",
        "answers:exporting plain: right",
    ],
    "wrong_when_exported": ["plain: wrong", "formulas: unsupported", "answers:none plain: right"],
    "right_only_for_torch_onnx": ["plain: right"],
    "wrong_whatever_it_hears": ["plain: right"],
    "rows_by_largest_index": ["plain: leaves", "answers:exporting plain: right"],
    "rows_that_no_answer_keeps": [
        "plain: leaves",
        "answers:exporting plain: leaves",
        "plain: wrong",
    ],
    "HelperInATable": ["plain: wrong", "plain: right"],
    "LoopInATable": ["plain: offers loops", "plain: offers loops", "loops: right"],
    "padded_to_fours": ["plain: wrong", "padded plain: right"],
    "padded_or_refused": [
        "plain: wrong",
        "padded plain: model raised ValueError",
        "padded plain: right",
    ],
    "padded_windows_or_all": [
        "plain: wrong",
        "padded plain: wrong",
        "padded branches-on-failed: right",
    ],
    "other_work_for_odd_sizes": [
        "plain: wrong",
        "padded plain: wrong",
        "padded branches-on-failed: unsupported",
        "other-sizes plain: wrong",
        "other-sizes branches-on-failed: right",
    ],
    "other_work_for_equal_sizes": [
        "plain: offers sizes",
        "informative plain: wrong",
        "plain: wrong",
        "padded plain: wrong",
        "padded branches-on-failed: unsupported",
        "other-sizes plain: wrong",
        "other-sizes branches-on-failed: unsupported",
        "branches-on-failed: right",
    ],
    "padded_chunks_in_a_loop": [
        "plain: offers loops",
        "loops: wrong",
        "numbered-loops+branches: wrong",
        "numbered-loops+branches+unfolded: wrong",
        "loops: wrong",
        "padded loops: right",
    ],
    "halved_until_small": ["plain: offers until", "until: right"],
    "rounds_that_take_turns": ["plain: offers until", "until: right"],
    "rounds_unlike_each_other": [
        "plain: offers until",
        "until: unsupported",
        "until+counting: unsupported",
        "unmerged plain: wrong",
        "branches-on-failed: unsupported",
        "branches-in-turn: unsupported",
    ],
    "branch_in_rounds_that_data_end": [
        "plain: offers until",
        "until: unsupported",
        "until+counting: unsupported",
        "no-breaks until-true: wrong",
        "until: unsupported",
        "until+counting: unsupported",
        "no-breaks until-true: unsupported",
        "selecting: offers until",
        "until+selecting: right",
    ],
    "taken_until_nothing_is_left": [
        "plain: offers until",
        "until: model raised RuntimeError",
        "until-true: right",
    ],
    "few_taken_until_nothing_is_left": [
        "plain: offers until+branches",
        "until: model raised RuntimeError",
        "other-sizes until-true: right",
    ],
    "taken_until_the_last": [
        "plain: offers until",
        "until: unsupported",
        "until+counting: unsupported",
        "no-breaks until-true: right",
    ],
    "newton_until_settled": ["plain: offers until", "until: right"],
    "either_side_of_a_sum": [
        "plain: offers until+branches",
        "until: unsupported",
        "until+counting: unsupported",
        "branches: right",
    ],
    "four_ways": [
        "plain: offers until+branches",
        "until: unsupported",
        "until+counting: unsupported",
        "until: unsupported",
        "until+counting: unsupported",
        "branches: right",
    ],
    "other_rank_on_one_side": [
        "plain: offers until+branches",
        "until: unsupported",
        "until+counting: unsupported",
        "branches: unsupported",
        "unmerged plain: wrong",
        "branches-on-failed: unsupported",
    ],
    "large_values_lose_a_size": [  # wrong at other sizes, which large values alone show
        "plain: offers until+branches",
        "until: unsupported",
        "until+counting: unsupported",
        "branches: wrong",
        "formulas+branches: unsupported",
        "branches-on-failed: wrong",
        "unmerged plain: wrong",
        "unmerged formulas: unsupported",
        "other-sizes plain: wrong",
        "other-sizes branches-on-failed: wrong",
        "branches-on-failed: wrong",
    ],
    "hidden_branch_on_a_list": [
        "plain: offers until+branches",
        "until: unsupported",
        "until+counting: unsupported",
        "branches: right",
    ],
    "read_on_one_side": [
        "plain: offers until+branches",
        "until: unsupported",
        "until+counting: unsupported",
        "branches: right",
    ],
    "nine_branches": [
        "plain: offers until",
        "until: unsupported",
        "until+counting: unsupported",
        "selecting: right",
    ],
    "branch_beside_a_size": [
        "plain: offers until+branches",
        "until: unsupported",
        "until+counting: unsupported",
        "branches: wrong",
        "formulas+branches: unsupported",
        "branches-on-failed: right",
    ],
    "strict_branch": [
        "plain: offers until+branches",
        "until: unsupported",
        "until+counting: unsupported",
        "branches: right",
    ],
    "strict_number": ["plain: escape", "branches: escape"],
    "state_from_step_to_step": ["plain: offers loops", "loops: right"],
    "state_that_begins_as_a_constant": ["plain: offers loops", "loops: right"],
    "counter_in_a_tensor": ["plain: offers loops", "loops: right"],
    "every_other_step": [
        "plain: offers loops",
        "loops: unsupported",
        "loops+unfolded: unsupported",
        "loops+counting: unsupported",
        "numbered-loops+branches: right",
    ],
    "other_factor_in_each_step": [
        "plain: offers loops",
        "loops: unsupported",
        "loops+unfolded: unsupported",
        "loops+counting: unsupported",
        "numbered-loops+branches: right",
    ],
    "steps_up_to_the_middle": [
        "plain: offers loops",
        "loops: unsupported",
        "loops+unfolded: unsupported",
        "loops+counting: unsupported",
        "numbered-loops+branches: right",
    ],
    "branch_in_each_step": ["plain: offers loops", "loops+branches: right"],
    "counted_on_one_side": [
        "plain: offers loops",
        "selecting: offers loops",
        "loops+selecting: right",
    ],
    "steps_with_a_lost_size": [
        "plain: offers loops",
        "loops: wrong",
        "numbered-loops+branches: wrong",
        "numbered-loops+branches+unfolded: wrong",
        "loops: wrong",
        "formulas+loops: right",
    ],
    "branch_beside_a_loop": ["plain: offers loops", "loops+branches: right"],
    "size_from_a_text": ["plain: wrong", "formulas: right"],
    "root_of_a_lost_size": ["plain: wrong", "formulas: right"],
    "lost_size_with_a_limit": ["plain: wrong", "formulas: wrong", "formulas: right"],
    "number_of_no_formula": ["plain: wrong", "formulas: unsupported", "other-sizes plain: wrong"],
    "other_work_by_a_lost_size": [
        "plain: wrong",
        "formulas: unsupported",
        "other-sizes plain: wrong",
    ],
    "made_once_for_each_size": ["plain: offers sizes", "informative plain: right"],
    "made_once_and_asks_whether_traced": [
        "plain: wrong",
        "formulas: unsupported",
        "answers:exporting plain: wrong",
        "answers:exporting formulas: unsupported",
        "other-sizes plain: wrong",
        "answers:exporting other-sizes plain: right",
    ],
    "cut_unless_square": [
        "plain: wrong",
        "padded plain: wrong",
        "padded branches-on-failed: unsupported",
        "other-sizes plain: wrong",
        "other-sizes branches-on-failed: right",
    ],
    "least_of_a_lost_size": ["plain: wrong", "formulas: wrong", "formulas: right"],
    "pieces_that_are_counted": [
        "plain: offers loops",
        "loops: unsupported",
        "loops+unfolded: unsupported",
        "loops+counting: unsupported",
        "numbered-loops+branches: unsupported",
        "numbered-loops+branches+unfolded: unsupported",
        "plain: right",
    ],
    "missing_but_for_torch_onnx": ["plain: missing", "answers:all plain: wrong"],
    "slopes": ["plain: differentiates", "derivative plain: right"],
    "slope_without_a_converter": ["plain: differentiates", "derivative plain: missing"],
    "no_converter": ["plain: missing"],
    "raises": ["plain: raised"],
    "halved_or_tripled": [
        "plain: wrong",
        "padded plain: unsupported",
        "other-sizes plain: wrong",
        "other-sizes branches-on-failed: unsupported",
        "branches-in-turn: unsupported",
    ],
}


@pytest.fixture(autouse=True)
def one_thread():
    """Sums depend on the number of threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_every_model_is_listed():
    assert EXPECTED.keys() == search_models.MODELS.keys()


@pytest.mark.parametrize("name", search_models.MODELS)
def test_recipes(name):
    model, args, options = search_models.MODELS[name]()
    found: list[str] = []
    try:
        with recipes_tried.tried() as found:
            hx.export(model, args, **options)
    except Exception as error:
        assert isinstance(error, (hx.HxError, ValueError)), error
    assert found == EXPECTED[name]
