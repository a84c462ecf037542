"""Tests of the pack as users install it."""

from hx import Registry


def test_the_pack_is_found_and_sound():
    pack = Registry.installed().pack("hx-spline")
    assert pack.status == "ok", pack.error
    assert not pack.findings, "\n".join(map(str, pack.findings))
    assert "acme_nn.spline" in [each.target for each in pack.registrations]
