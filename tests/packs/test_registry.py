"""Who converts what: precedence, ties, windows and requirements."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from importlib.metadata import EntryPoint

import pytest

from hx import PackError, Registry, UsageError, case, converter
from hx.config import Settings, from_environment, from_pyproject
from hx.packs import installed
from hx.packs.installed import Pack
from hx.registration import registrations
from hx.testing import runs_of


def pack(name: str, *functions, version: str = "1.0", status: str = "ok", entry: str = "main"):
    key = f"{name}[{entry}]"
    found = tuple(replace(r, pack=key) for f in functions for r in registrations(f))
    return Pack(name, entry, version, f"{name}.plugin", status, registrations=found)


def relu(target="torch.relu", **conditions):
    @converter(target, **conditions)
    def function(op, input): ...

    return function


def test_a_decorated_function_stays_a_function_and_stacks():
    @converter("a.b", since=18)
    @converter("a.c", "a.d")
    def twice(op, x):
        """Doubles."""
        return x * 2

    assert twice(None, 4) == 8
    assert [r.target for r in registrations(twice)] == ["a.c", "a.d", "a.b"]
    first = registrations(twice)[-1]
    assert (first.since, first.window, first.doc) == (18, "18+", "Doubles.")
    assert first.file == __file__ and first.line > 0


def test_an_optional_converter_is_used_where_it_is_chosen_and_nowhere_else():
    packs = [pack("plain", relu()), pack("fast", relu(optional=True), relu("lib.f", optional=True))]
    installed = Registry(packs).select(20)
    assert installed["torch.relu"].registration.pack == "plain[main]" and "lib.f" not in installed
    [refused] = Registry(packs).refused(20)["lib.f"]
    assert "--use lib.f=fast" in refused.reason
    chosen = Registry(packs, use={"torch.*": "fast"}).select(20)
    assert chosen["torch.relu"].registration.pack == "fast[main]" and "lib.f" not in chosen
    assert "lib.f" in Registry(packs, use={"*": "fast"}).select(20)


@pytest.mark.parametrize(
    ("targets", "options", "words"),
    [
        (("a..b",), {}, "'a..b' is not the name of a target"),
        ((), {}, "needs the name"),
        (("a.b",), {"since": 12}, "since=12 of a.b is not an opset"),
        (("a.b",), {"since": 20, "until": 18}, "never used"),
        (("a.b",), {"priority": "high"}, "has to be an int"),
        (("a.b",), {"overrides": 1}, "has to be names"),
        (("a.b",), {"cases": ["float32[2]"]}, "which is not a case"),
    ],
)
def test_a_decorator_that_makes_no_sense_is_refused_where_it_stands(targets, options, words):
    with pytest.raises(UsageError, match=words.replace("[", r"\[")):
        converter(*targets, **options)


def test_one_case_needs_no_list():
    @converter("a.b", cases=case("float32[2]"))
    def one(op, x): ...

    [registration] = registrations(one)
    assert registration.cases == (case("float32[2]"),)


def test_forgetting_the_parentheses_is_explained():
    with pytest.raises(UsageError, match="needs the name of what is converted"):
        converter(lambda op, x: x)


def test_a_class_is_no_converter_and_an_object_has_the_line_of_what_it_does():
    class Relu:
        def __call__(self, op, input):
            return op.Relu(input)

    with pytest.raises(UsageError, match=r"decorates the class .*Relu"):
        converter("torch.relu")(Relu)
    made = converter("torch.relu")(Relu())
    [one] = made.__hx__
    assert (one.file, one.line) == (__file__, Relu.__call__.__code__.co_firstlineno)


def test_one_converter_is_the_choice():
    mine = relu()
    choice = Registry([pack("one", mine)]).select(20)["torch.relu"]
    assert choice.registration.function is mine and choice.reason == "the only one"


def test_two_that_are_level_are_a_tie_only_when_used():
    registry = Registry([pack("one", relu()), pack("two", relu())])
    choice = registry.select(20)["torch.relu"]
    assert choice.tie
    with pytest.raises(PackError) as caught:
        _ = choice.registration
    told = str(caught.value)
    assert "by one and two, and neither comes first" in told
    assert "--use torch.relu=one or --use torch.relu=two" in told
    assert told.count(__file__) == 2


@pytest.mark.parametrize(
    ("first", "second", "use", "winner", "reason"),
    [
        ({}, {"priority": 1}, {}, "two", "higher priority"),
        ({"priority": 5}, {"overrides": "one"}, {}, "two", "overrides"),
        ({"overrides": ["two"], "priority": 5}, {}, {"torch.relu": "two"}, "two", "chosen"),
        ({}, {}, {"torch.relu": "one"}, "one", "chosen"),
        ({}, {}, {"torch.relu": "One_"[:-1]}, "one", "chosen"),
        ({}, {}, {"torch.relu": "two[main]"}, "two", "chosen"),
    ],
)
def test_the_order_is_choice_then_override_then_priority(first, second, use, winner, reason):
    packs = [pack("one", relu(**first)), pack("two", relu(**second))]
    for order in (packs, packs[::-1]):
        choice = Registry(order, use).select(20)["torch.relu"]
        assert choice.registration.pack == f"{winner}[main]"
        assert choice.reason.startswith(reason)


def test_a_choice_may_be_a_pattern_and_a_name_comes_before_it():
    one = pack("one", relu(), relu("torch.sigmoid"), relu("math.sin"))
    two = pack("two", relu(), relu("torch.sigmoid"), relu("math.sin", priority=1))
    chosen = Registry([one, two], {"torch.*": "one", "torch.sigmoid": "two"}).select(20)
    packs = {target: choice.registration.pack for target, choice in chosen.items()}
    assert packs == {
        "torch.relu": "one[main]",
        "torch.sigmoid": "two[main]",
        "math.sin": "two[main]",
    }
    with pytest.raises(UsageError, match="the pack converts no numpy"):
        Registry([one], {"numpy.*": "one"})


def test_packs_that_override_each_other_are_a_tie():
    packs = [pack("one", relu(overrides="two")), pack("two", relu(overrides="one"))]
    assert Registry(packs).select(20)["torch.relu"].tie


@pytest.mark.parametrize("also", [[], ["hx"]])
@pytest.mark.parametrize("circle", [["one", "two"], ["one", "two", "three"]])
def test_nor_does_what_they_all_stand_beside_come_first(circle, also):
    packs = [pack("hx", relu())]
    for name, next in zip(circle, [*circle[1:], circle[0]]):
        packs.append(pack(name, relu(overrides=[next, *also])))
    for order in (packs, packs[::-1]):
        choice = Registry(order).select(20)["torch.relu"]
        assert choice.tie and all(name in str(choice.problem) for name in circle)
        # What all of them override is not one of those that are level.
        assert ("hx" not in str(choice.problem).splitlines()[0].split()) == bool(also)
    chosen = Registry(packs, {"torch.relu": "two"}).select(20)["torch.relu"]
    assert chosen.registration.pack == "two[main]"


def test_an_override_reaches_what_the_overridden_one_overrides():
    packs = [
        pack("hx", relu(priority=9)),
        pack("one", relu(overrides="hx")),
        pack("two", relu(overrides="one")),
    ]
    choice = Registry(packs).select(20)["torch.relu"]
    assert choice.registration.pack == "two[main]" and choice.reason == "overrides"


def test_what_is_added_by_hand_comes_before_packs():
    mine = relu()
    registry = Registry([pack("one", relu(priority=99))])
    registry.add(mine)
    assert registry.select(20)["torch.relu"].registration.function is mine


def test_windows_part_converters_of_one_target():
    old, new = relu(until=17), relu(since=18)
    registry = Registry.of(old, new)
    for opset, function in ((13, old), (17, old), (18, new), (26, new)):
        assert registry.select(opset)["torch.relu"].registration.function is function


def test_what_cannot_be_used_here_is_known_with_its_reason():
    registry = Registry.of(
        relu(since=24), relu(requires="no-such-library>=2"), relu(requires="pip<1")
    )
    assert "torch.relu" not in registry.select(20)
    reasons = [each.reason for each in registry.refused(20)["torch.relu"]]
    assert reasons[0] == "is for opset 24+, and this is opset 20"
    assert reasons[1] == "needs no-such-library>=2, and no-such-library is not installed"
    assert reasons[2].startswith("needs pip<1, and pip ")


def test_a_requirement_may_name_a_module_of_a_distribution_with_another_name():
    assert "torch.relu" in Registry.of(relu(requires="markdown_it>=1")).select(20)


def test_one_function_under_two_names_of_a_callable_is_no_tie():
    both = converter("torch.Tensor.relu")(relu())
    registry = Registry([pack("one", both)])
    assert registry.pick(registry.registrations).function is both


def test_a_choice_that_cannot_be_used_is_said():
    registry = Registry([pack("one", relu(since=24)), pack("two", relu())], {"torch.relu": "one"})
    with pytest.raises(PackError, match=r"--use torch.relu=one: its converter is for opset 24"):
        _ = registry.select(20)["torch.relu"].registration
    assert registry.select(24)["torch.relu"].registration.pack == "one[main]"


def test_a_module_target_may_be_chosen_without_its_forward():
    packs = [pack(name, relu("torch.nn.ReLU.forward")) for name in ("one", "two")]
    choice = Registry(packs, {"torch.nn.ReLU": "two"}).select(20)["torch.nn.ReLU.forward"]
    assert choice.registration.pack == "two[main]"


@pytest.mark.parametrize(
    ("use", "words"),
    [
        ({"torch.relu": "tow"}, "did you mean two?"),
        ({"torch.rleu": "two"}, "did you mean torch.relu?"),
    ],
)
def test_a_choice_that_names_nothing_is_refused_with_what_was_meant(use, words):
    with pytest.raises((PackError, UsageError)) as caught:
        Registry([pack("one", relu()), pack("two", relu())], use)
    assert words in str(caught.value)


def test_a_name_that_two_packs_answer_to_has_to_be_written_in_full():
    packs = [pack("one", relu()), pack("two", relu())]
    with pytest.raises(UsageError, match=r"write one\[main\] or two\[main\]"):
        Registry(packs).pack("main")


def test_settings_come_from_the_nearest_pyproject(tmp_path):
    (tmp_path / "pyproject.toml").write_text(
        '[tool.hx]\nuse = { "torch.relu" = "two" }\nno_pack = ["one"]\nrequire = "two>=1"\n'
    )
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    found = from_pyproject(inner)
    assert found.use == {"torch.relu": "two"} and found.no_pack == ("one",)
    assert found.require == ("two>=1",) and not found.strict


def test_a_pyproject_is_parsed_again_only_if_it_has_changed(tmp_path):
    path = tmp_path / "pyproject.toml"
    path.write_text('[tool.hx]\nno-pack = ["one"]\n')
    first = from_pyproject(tmp_path)
    assert from_pyproject(tmp_path) is first
    path.write_text('[tool.hx]\nno-pack = ["two"]\n')
    assert from_pyproject(tmp_path).no_pack == ("two",)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[tool.hx]\nno-packs = ['a']\n", "did you mean no-pack?"),
        ("[tool.hx]\nstrict = 1\n", "true or false"),
        ("[tool.hx]\nuse = ['a']\n", "not a table"),
        ("[tool.hx]\nrequire = [1]\n", "list of strings"),
        ("[tool.hx\n", "not valid TOML"),
        ("[tool]\nhx = true\n", "not a table"),
    ],
)
def test_settings_that_make_no_sense_are_refused_with_the_file(tmp_path, text, words):
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(UsageError) as caught:
        from_pyproject(tmp_path)
    assert words in str(caught.value) and "pyproject.toml" in str(caught.value)


def test_a_pyproject_that_does_not_speak_of_hx_is_nobodys_business(tmp_path):
    for text in ("[project\nbroken", "tool = 'hx'\n[tools]\n"):
        (tmp_path / "pyproject.toml").write_text(text)
        assert from_pyproject(tmp_path) == Settings()


def test_the_environment_comes_before_the_file_and_the_call_before_both(tmp_path):
    environ = {
        "HX_USE": "torch.relu=two, torch.add=one",
        "HX_NO_PACK": "x,y",
        "HX_REQUIRE": "a>=1,<2; b",
        "HX_STRICT": "1",
    }
    found = from_environment(environ)
    assert found.use == {"torch.relu": "two", "torch.add": "one"}
    assert found.no_pack == ("x", "y") and found.require == ("a>=1,<2", "b") and found.strict
    below = Settings(use={"torch.relu": "one", "torch.mul": "one"}, only_packs=("z",))
    merged = found.over(below)
    assert merged.use["torch.relu"] == "two" and merged.use["torch.mul"] == "one"
    assert merged.only_packs == ("z",)
    strict = Settings(strict=True)
    assert from_environment({}).over(strict).strict
    assert not from_environment({"HX_STRICT": "0"}).over(strict).strict


@pytest.mark.parametrize("text", ["torch.relu", "=two", "torch.relu="])
def test_a_choice_without_a_target_or_a_pack_is_refused(text):
    with pytest.raises(UsageError, match="is not TARGET=PACK"):
        from_environment({"HX_USE": text})


def test_listing_imports_neither_torch_nor_anything_else_that_is_heavy():
    code = (
        "import sys; from hx import Registry; r = Registry.installed(); "
        "assert len(r.registrations) > 100; "
        "print([m for m in ('torch', 'numpy', 'onnx', 'onnx_ir', 'onnxruntime', 'rich', "
        "'torchvision', 'timm', 'transformers') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_a_case_keeps_what_it_was_given():
    one = case("float32[n,3]", 2, init=(4,), dtypes="float16", expect="Relu", scale=2.0)
    assert one.args == ("float32[n,3]", 2) and one.kwargs == {"scale": 2.0}
    assert (one.init, one.dtypes, one.expect) == ((4,), ("float16",), ("Relu",))


def test_the_converters_nearest_to_a_target_are_those_of_like_names():
    def named(target):
        @converter(target)
        def one(op, x):
            return x

        return one

    targets = ["torch.nn.Conv3d.forward", "torch.conv3d", "torch.relu", "torch.linalg.eigh"]
    registry = Registry.of(*map(named, targets))
    assert registry.nearest("spconv.pytorch.SubMConv3d.forward") == ["torch.nn.Conv3d.forward"]
    assert registry.nearest("torch.linalg.eig") == ["torch.linalg.eigh"]
    assert registry.nearest("torch.Tensor.real.__get__") == []


def test_an_entry_point_that_names_nothing_is_what_is_to_be_corrected():
    for value in ("hx_has_no_such_pack.plugin", "hx_converters.standard_pack:nothing"):
        entry = EntryPoint("lost", value, "hx")
        pack = installed.load(Pack("lost", "lost", "1", value), entry)
        [found] = pack.findings
        assert (found.level, found.id) == ("error", "import-failed")
        assert f'entry point in its pyproject.toml: lost = "{value}"' in found.fix


def test_all_runs_of_the_cases_of_a_pack_share_one_registry():
    cases = [case("float32[n,3]"), case("float32[3]")]
    found = [
        r
        for target in ("torch.relu", "torch.exp")
        for r in registrations(relu(target, cases=cases))
    ]
    runs = list(runs_of(found))
    assert len(runs) == 2 * (6 + 3) and len({id(run.tested.registry) for run in runs}) == 1
    assert set(runs[0].tested.registry.select(20)) == {"torch.relu", "torch.exp"}
