"""Packs that misbehave, each really installed: what people see, and that all else works on."""

from __future__ import annotations

import json

import pytest

from .conftest import Shell, pip_install, write_pack

API = "HX_API = 1\n"
LISTS = API + "def hx_converters():\n    return ['{module}.converters']\n"

SHOP = """
import torch
from torch import nn

def operator(x): return x * 2
def structure(x): return x * 2
def arity(x, times): return x * times
def endless(x): return x * 2
def raising(x): return x * 2
def contested(x): return x * 2
def sound(x): return x * 2
def spare(x): return x * 2

class Shop(nn.Module):
    def __init__(self, name):
        super().__init__()
        self.name = name

    def forward(self, x):
        extra = (3,) if self.name == "arity" else ()
        return globals()[self.name](x, *extra)
"""
NAMES = ("operator", "structure", "arity", "endless", "raising", "contested", "sound")
MODELS = "import torch, shop.plugin as shop\n" + "".join(
    f"def {name}(): return shop.Shop('{name}'), (torch.ones(2, 3),)\n" for name in NAMES
)
HEAD = "from hx import converter\n"


def converting(name: str, body: str, parameters: str = "op, x") -> str:
    return f"{HEAD}@converter('shop.plugin.{name}')\ndef {name}({parameters}):\n    {body}\n"


# name of the pack -> its plugin, and its converters when it has some
PACKS: dict[str, tuple[str, str]] = {
    "raises-on-import": (API + "raise RuntimeError('no licence found')\n", ""),
    "raises-in-hook": (API + "def hx_converters():\n    return 1 / 0\n", ""),
    "misspelt-hook": (API + "def hx_convertors():\n    return []\n", ""),
    "future-api": ("HX_API = 99\ndef hx_converters():\n    return []\n", ""),
    "no-api": ("def hx_converters():\n    return []\n", ""),
    "absent-module": (API + "def hx_converters():\n    return ['absent_module.nothing']\n", ""),
    "gives-number": (API + "def hx_converters():\n    return [3]\n", ""),
    "gives-twice": (
        API + "from hx import converter\n@converter('shop.plugin.spare')\n"
        "def spare(op, x): return op.Add(x, x)\ndef hx_converters(): return [spare, spare]\n",
        "",
    ),
    "wrong-signature": (API + "def hx_converters(registry):\n    return []\n", ""),
    "wrong-result": (API + "def hx_model_sources():\n    return ['zoo']\n", ""),
    "endless-hook": (API + "def hx_converters():\n    return hx_converters()\n", ""),
    "slow-import": (
        API + "import time; time.sleep(0.8)\ndef hx_converters():\n    return []\n",
        "",
    ),
    "heavy-import": (API + "import torch\ndef hx_converters():\n    return []\n", ""),
    "prints-at-import": (
        API + "print('Welcome to ACME!')\ndef hx_converters():\n    return []\n",
        "",
    ),
    "exits-at-import": (API + "import sys; sys.exit('not today')\n", ""),
    "bad-syntax": (API + "def hx_converters(:\n", ""),
    "empty-plugin": (API, ""),
    "no-such-library": (API + "import a_library_nobody_has\n", ""),
    "clash-a": (LISTS, converting("contested", "return op.Mul(x, 2.0)")),
    "clash-b": (LISTS, converting("contested", "return op.Add(x, x)")),
    "unknown-operator": (LISTS, converting("operator", "return op.Mull(x, 2.0)")),
    "wrong-structure": (LISTS, converting("structure", "return (x, x)")),
    "wrong-arity": (LISTS, converting("arity", "return x")),
    "endless-converter": (LISTS, converting("endless", "return endless(op, x)")),
    "raising-converter": (LISTS, converting("raising", "return {}['no such key']")),
    "bad-requirement": (
        LISTS,
        f"{HEAD}@converter('shop.plugin.sound', requires='spconv>>2')\ndef sound(op, x): ...\n",
    ),
    "two-names": (
        LISTS,
        f"{HEAD}@converter('torch.sub', until=20)\ndef one(op, input, other, *, alpha=1): ...\n"
        "@converter('torch.Tensor.__sub__', until=20, overrides='hx')\n"
        "def two(op, a, b, *, alpha=1): ...\n"
        "@converter('torch.Tensor.sub', since=21)\ndef parted(op, a, b, *, alpha=1): ...\n",
    ),
    "bad-cases": (
        LISTS,
        "from hx import case, converter\nimport sys\n"
        "@converter('shop.plugin.spare', cases=[case('float33[n]'), case('float32[n,,]'),\n"
        "           case(lambda: sys.exit(0)), case('float32[n,3]')])\n"
        "def spare(op, x): return op.Add(x, x)\n"
        "@converter('torch.nn.functional.siluu')\ndef silu(op, x): return x\n",
    ),
    "null-hook": (API + "def hx_passes():\n    pass\n", ""),
    "no-function": (
        API + "from hx import Container\ndef hx_containers():\n"
        "    return [Container('shop.plugin.Shop', None, None)]\n",
        "",
    ),
    "odd-words": (
        LISTS + "from hx import Container\ndef hx_containers():\n"
        "    there = lambda *given: given\n"
        "    return [Container(name, there, there) for name in\n"
        "            ('shop.plugin.Shop', 'shop.plugin.Shopp', 'nobody_has_this.Type')]\n",
        f"{HEAD}@converter('shop.plugin.spare', overrides=['sound-pakc', 'odd-words', 'hx'])\n"
        "def spare(op, x): return op.Add(x, x)\n",
    ),
    "second-source": (
        API + "from hx import ModelSource\ndef hx_model_sources():\n"
        "    return [ModelSource('torchvision', print), ModelSource('zoo', print)]\n",
        "",
    ),
    "sound-pack": (LISTS, converting("sound", "return op.Add(x, x)")),
}


@pytest.fixture(scope="module")
def shell(tmp_path_factory) -> Shell:
    """All of them installed side by side, with one pip."""
    sources = tmp_path_factory.mktemp("sources")
    roots = [write_pack(sources, "shop", SHOP, entry="")]
    for name, (plugin, converters) in PACKS.items():
        module = name.replace("-", "_")
        extra = {"converters": converters} if converters else {}
        roots.append(write_pack(sources, name, plugin.replace("{module}", module), **extra))
    target = tmp_path_factory.mktemp("installed")
    pip_install(target, *roots)
    work = tmp_path_factory.mktemp("work")
    (work / "models.py").write_text(MODELS)
    return Shell([target], work)


@pytest.fixture(scope="module")
def packs(shell) -> dict[str, dict]:
    return {pack["distribution"]: pack for pack in shell.packs().values()}


def test_every_one_of_them_is_listed_although_all_share_one_entry_point_name(packs):
    assert set(PACKS) | {"hx"} == set(packs)
    assert all(pack["key"] == f"{name}[main]" for name, pack in packs.items() if name != "hx")


def test_the_sound_ones_work(packs):
    assert packs["hx"]["status"] == packs["sound-pack"]["status"] == "ok"
    assert packs["sound-pack"]["counts"]["converters"] == 1


@pytest.mark.parametrize(
    ("name", "finding", "words"),
    [
        ("raises-on-import", "import-failed", "RuntimeError: no licence found"),
        ("raises-in-hook", "hook-raised", "ZeroDivisionError"),
        ("misspelt-hook", "misspelt-hook", "did you mean hx_converters?"),
        ("wrong-signature", "hook-signature", "hx_converters asks for registry"),
        ("absent-module", "import-failed", "install what has the module absent_module.nothing"),
        ("gives-number", "not-a-converter", "hx_converters() gives 3"),
        ("wrong-result", "hook-result", "'zoo', which is no ModelSource"),
        ("endless-hook", "hook-raised", "RecursionError"),
        ("exits-at-import", "import-failed", "SystemExit: not today"),
        ("bad-syntax", "import-failed", "SyntaxError"),
        ("empty-plugin", "no-hooks", "has no hook"),
        ("no-function", "hook-result", "flatten of Container('shop.plugin.Shop'"),
        ("no-such-library", "import-failed", "install what has the module a_library_nobody_has"),
        ("bad-requirement", "requires-malformed", "spconv>>2"),
    ],
)
def test_what_cannot_work_is_out_with_a_finding_that_says_where_and_how_to_mend_it(
    packs, name, finding, words
):
    pack = packs[name]
    [found] = [each for each in pack["findings"] if each["level"] == "error"]
    assert (pack["status"], found["id"]) == ("failed", finding)
    assert words in f"{found['message']} {found['fix']}"
    assert found["fix"] and found["message"].splitlines()[0] in pack["error"]
    assert found["file"].endswith(".py") and name.replace("-", "_") in found["file"]
    assert found["line"] > 0 or finding == "no-hooks"


def test_a_pack_for_a_later_api_is_incompatible_and_says_what_to_do(packs):
    assert packs["future-api"]["status"] == "incompatible"
    assert "upgrade hx" in packs["future-api"]["error"]


@pytest.mark.parametrize(
    ("name", "finding", "words"),
    [
        ("slow-import", "slow-import", "0."),
        ("heavy-import", "heavy-import", "torch"),
        ("prints-at-import", "printed-at-import", "Welcome to ACME!"),
        ("no-api", "api-missing", "HX_API = 1"),
        ("null-hook", "hook-returned-nothing", "hx_passes() returns None"),
    ],
)
def test_what_is_only_a_nuisance_works_with_a_warning(packs, name, finding, words):
    pack = packs[name]
    assert pack["status"] == "ok"
    [found] = [each for each in pack["findings"] if each["id"] == finding]
    assert found["level"] == "warning" and words in found["message"] + found["fix"]


def test_a_converter_that_is_given_twice_is_one(packs):
    assert packs["gives-twice"]["counts"]["converters"] == 1
    assert not packs["gives-twice"]["findings"]


def test_what_a_pack_prints_at_import_does_not_reach_the_data(shell):
    done = shell.run("converters", "list", "--json", "--only-packs", "prints-at-import,hx")
    assert done.stdout.startswith("{") and "Welcome" not in done.stdout + done.stderr


def test_people_see_each_broken_pack_with_its_reason_and_no_traceback(shell):
    done = shell.run("packs", "list")
    assert done.returncode == 0 and "Traceback" not in done.stdout + done.stderr
    for name in ("raises-on-import", "misspelt-hook", "future-api"):
        assert f"{name}[main]" in done.stdout
    assert "no licence found" in done.stdout and "did you mean hx_converters?" in done.stdout


def test_check_exits_with_3_for_a_broken_pack_and_0_for_a_sound_one(shell):
    broken = shell.run("packs", "check", "misspelt-hook")
    assert broken.returncode == 3
    assert "error misspelt-hook: there is no hook named hx_convertors" in broken.stdout
    assert "plugin.py:2" in broken.stdout and "fix:   did you mean hx_converters?" in broken.stdout
    assert shell.run("packs", "check", "sound-pack").returncode == 0


def test_one_thing_converted_twice_under_two_names_is_a_finding_and_a_tie(shell):
    [pack] = shell.json("packs", "check", "two-names", "--no-cases")["packs"]
    [told] = [each["message"] for each in pack["findings"] if each["id"] == "duplicate-target"]
    assert "torch.Tensor.__sub__, which is also called torch.sub, is converted by both" in told
    shown = shell.run("converters", "show", "torch.sub", "--only-packs", "hx,two-names")
    assert "is converted 2 times by two-names" in shown.stdout
    assert "used, the only one" not in shown.stdout.partition("of complex numbers")[0]


def test_check_tells_of_a_bad_case_at_its_line_and_goes_on(shell):
    done = shell.run("packs", "check", "bad-cases", "--json")
    assert done.returncode == 3 and not done.stderr.strip()
    [pack] = json.loads(done.stdout)["packs"]
    found = [(each["id"], each["line"]) for each in pack["findings"] if each["level"] == "error"]
    assert found == [
        ("target-unresolved", 6),
        ("case-invalid", 3),
        ("case-invalid", 3),
        ("case-failed", 3),
    ]
    told = [each["message"] for each in pack["findings"]]
    assert "a case of shop.plugin.spare: there is no dtype 'float33'" in "".join(told)
    assert "SystemExit: 0" in told[-1] and pack["cases_run"] == 9
    assert "and so in 2 more runs" in told[-1]  # at other opsets


def test_check_tells_of_names_that_lead_nowhere(shell):
    [pack] = shell.json("packs", "check", "odd-words")["packs"]
    told = {(each["id"], each["message"], each["fix"]) for each in pack["findings"]}
    assert {(id, message.partition(": ")[0]) for id, message, _ in told} == {
        ("no-cases", "nothing is tested of shop.plugin.spare"),
        ("overrides-unknown", "shop.plugin.spare overrides 'sound-pakc', which is not installed"),
        ("overrides-itself", "shop.plugin.spare overrides 'odd-words', which is this pack"),
        ("container-unresolved", "the container shop.plugin.Shopp"),
        ("library-absent", "the container nobody_has_this.Type"),
    }
    assert "did you mean sound-pack?" in {fix for _, _, fix in told}


def test_a_second_model_source_of_one_name_is_said(shell):
    words = ["scan", "torchvision:resnet18"]
    done = shell.run(*words)
    assert done.returncode == 3
    assert "'torchvision' is given by hx[standard] and second-source[main]" in done.stderr
    assert "--no-pack second-source[main]" in done.stderr
    alone = shell.run(*words, "--no-pack", "hx")
    assert "'torchvision:resnet18' is None" in alone.stderr


def only(name: str) -> list[str]:
    return ["--only-packs", f"hx,{name}"]


def test_a_model_exports_although_twenty_packs_beside_are_broken(shell):
    done = shell.run("export", "models.py:sound", "-o", "sound.onnx", "--verbose")
    assert done.returncode == 0, done.stderr
    assert "sound-pack" in done.stderr and (shell.cwd / "sound.onnx").stat().st_size
    assert "warning: pack raises-on-import[main] is failed and left out" in done.stderr


def test_a_tie_names_both_packs_and_the_flags_that_settle_it(shell):
    done = shell.run("export", "models.py:contested", "-o", "c.onnx", *only("clash-a,clash-b"))
    assert done.returncode == 3 and not (shell.cwd / "c.onnx").exists()
    for words in ("clash-a", "clash-b", "--use shop.plugin.contested=clash-a", "converters.py:2"):
        assert words in done.stderr
    settled = shell.run(
        "export", "models.py:contested", "-o", "c.onnx", *only("clash-a,clash-b"),
        "--use", "shop.plugin.contested=clash-b", "--json",
    )  # fmt: skip
    assert settled.returncode == 0, settled.stderr
    assert "clash-b[main]" in settled.stdout and "clash-a[main]" not in settled.stdout


@pytest.mark.parametrize(
    ("model", "pack", "words"),
    [
        ("operator", "unknown-operator", ["Mull", "Mul"]),
        ("structure", "wrong-structure", ["shop.plugin.structure"]),
        ("arity", "wrong-arity", ["shop.plugin.arity"]),
        ("endless", "endless-converter", ["RecursionError"]),
        ("raising", "raising-converter", ["KeyError", "no such key"]),
    ],
)
def test_a_converter_that_fails_is_named_with_its_pack_its_line_and_the_users(
    shell, model, pack, words
):
    done = shell.run("export", f"models.py:{model}", "-o", f"{model}.onnx", *only(pack))
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr and not (shell.cwd / f"{model}.onnx").exists()
    for text in (*words, pack, "converters.py:", "plugin.py:"):
        assert text in done.stderr, done.stderr


def test_strict_and_require_stop_before_anything_is_done(shell):
    strict = shell.run("export", "models.py:sound", "-o", "s.onnx", "--strict")
    assert strict.returncode == 3 and "--no-pack" in strict.stderr
    for text, words in [
        ("sound-pack>=2", "sound-pack 1.0 is installed"),
        ("nobody", "no pack 'nobody' is installed"),
        ("misspelt-hook", "the pack is failed"),
    ]:
        done = shell.run("export", "models.py:sound", "-o", "s.onnx", "--require", text)
        assert done.returncode == 3 and words in done.stderr
    assert not (shell.cwd / "s.onnx").exists()
    met = shell.run("export", "models.py:sound", "-o", "s.onnx", "--require", "sound-pack>=1")
    assert met.returncode == 0
