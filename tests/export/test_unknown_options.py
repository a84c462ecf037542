"""Options that hx does not have: an error that says what to write instead."""

import pytest
import torch

import hx


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({"dynamic_axes": {"input": {0: "batch"}}}, "dynamic_axes is dynamic= in hx"),
        (
            {"dynamic_shapes": {}, "dynamo": True},
            "dynamic_shapes is dynamic= in hx; leave dynamo out",
        ),
        ({"opset_version": 17}, "opset_version is opset= in hx"),
        ({"opsett": 17}, "did you mean opset=?"),
        ({"colour": "red"}, "the options are model, args, path"),
    ],
)
def test_an_unknown_option_is_named_with_its_own_name_in_hx(options, advice):
    with pytest.raises(hx.UsageError, match=f"has no option {', '.join(options)}") as caught:
        hx.export(torch.nn.ReLU(), torch.ones(2), **options)
    assert advice in caught.value.hint


def test_scan_does_not_suggest_options_that_only_an_export_has():
    with pytest.raises(hx.UsageError) as caught:
        hx.scan(torch.nn.ReLU(), torch.ones(2), opset_version=17, f="m.onnx")
    assert caught.value.hint == (
        "opset_version is opset= in hx; the options are model, args, kwargs, dynamic, opset, packs"
    )


def test_a_type_error_of_the_model_stays_one():
    def model(x):
        return x + {}

    with pytest.raises(TypeError, match="unsupported operand"):
        hx.export(model, torch.ones(2))
