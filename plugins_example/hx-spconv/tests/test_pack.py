"""Tests of the pack as users install it; spconv is not needed for them."""

import pytest

from hx import Registry

LAYER = "spconv.pytorch.conv.SparseConvolution.forward"


@pytest.mark.parametrize("name", ["spconv", "spconv-custom"])
def test_both_packs_are_found_and_sound(name):
    pack = Registry.installed().pack(f"hx-spconv[{name}]")
    assert pack.status == "ok", pack.error
    assert not pack.findings, "\n".join(map(str, pack.findings))


def test_both_forms_convert_the_same():
    standard, custom = (Registry.installed().pack(n) for n in ("spconv", "spconv-custom"))
    assert {r.target for r in standard.registrations} == {r.target for r in custom.registrations}


@pytest.mark.parametrize(
    ("options", "form"),
    [
        ({}, "standard"),
        ({"use": {"spconv.*": "spconv-custom"}}, "custom"),
        ({"without": ["spconv"]}, "custom"),
        ({"without": ["spconv-custom"]}, "standard"),
    ],
)
def test_the_form_is_the_users_choice(options, form):
    choices = Registry.installed(**options).select(20)
    ours = [choice for target, choice in choices.items() if target.startswith("spconv.")]
    modules = {choice.registration.function.__module__ for choice in ours}
    assert modules == {f"hx_spconv.{form}.converters"}
