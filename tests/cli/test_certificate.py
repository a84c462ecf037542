"""Certificates: written by an export, and checked later without torch."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
import sys
import zlib

import numpy as np
import onnx
import pytest
import torch

import hx as exporter
from hx.budget import BUDGET
from hx.proof.certificates import recheck, sealing
from hx.proof.certificates.fingerprint import fingerprint
from hx.proof.certificates.packed_arrays import packed, unpacked

WORDS = ("export", "models.py:line", "-o", "m.onnx", "-i", "x=float32[batch,4]")
CHECK = ("verify", "--certificate", "m.certificate.json", "m.onnx")


def changed_weight(path):
    model = onnx.load(path)
    [weight] = [each for each in model.graph.initializer if len(each.dims) == 2]
    values = onnx.numpy_helper.to_array(weight).copy()
    values[0, 0] += 0.5
    weight.CopyFrom(onnx.numpy_helper.from_array(values, weight.name))
    onnx.save(model, path)


def resealed(path, change, key=None):
    """Change a certificate as somebody would who knows its format."""
    document, _ = sealing.read(path)
    change(document)
    path.write_text(sealing.sealed(document, key))


def test_a_certificate_is_written_and_checked(hx, folder):
    done = hx(*WORDS, "--certificate")
    assert done.code == 0, done.told
    assert "m.certificate.json" in done.err and "input sets" in done.err
    again = hx(*CHECK)
    assert again.code == 0 and again.err.strip() == "ok"
    assert "m.onnx has the certified bytes: sha256 " in again.out
    assert "max error" in again.out and "batch 1 to " in again.out
    data = hx(*CHECK, "--json").json
    assert data["ok"] and not data["signed"] and len(data["cases"]) > 3
    document = json.loads((folder / "m.certificate.json").read_text())
    assert document["opset"] == 20 and "onnxruntime" in document["versions"]
    assert (
        document["file"]["sha256"] == hashlib.sha256((folder / "m.onnx").read_bytes()).hexdigest()
    )


def test_a_certificate_is_checked_without_torch(hx, folder):
    assert hx(*WORDS, "--certificate").code == 0
    code = (
        "import sys\n"
        f"sys.argv = ['hx', *{list(CHECK)}]\n"
        "from hx.cli import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "assert 'onnxruntime' in sys.modules and 'torch' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("inside", [0, -1])
def test_any_changed_byte_of_the_file_is_seen(hx, folder, inside):
    assert hx(*WORDS, "--certificate").code == 0
    content = bytearray((folder / "m.onnx").read_bytes())
    at = content.rindex(b"hx") if inside else content.index(b"hx")  # a name, not a number
    content[at] ^= 1
    (folder / "m.onnx").write_bytes(content)
    done = hx(*CHECK)
    assert done.code == 4 and done.err.startswith("error[HX401]: m.onnx is not the certified file")
    assert "m.onnx has other bytes than the certified one" in done.err
    assert hx(*CHECK, "--json").json["changed"]


def test_a_changed_byte_of_the_weights_beside_the_file_is_seen(hx, folder):
    (folder / "wide.py").write_text("import torch\ndef make(): return torch.nn.Linear(512, 4)\n")
    words = ["-o", "m.onnx", "-i", "input=float32[2,512]", "--external-data", "--certificate"]
    assert hx("export", "wide.py:make", *words).code == 0
    assert "and 1 data file" in hx(*CHECK).out
    [data] = folder.glob("m.*.data")
    content = bytearray(data.read_bytes())
    content[5] ^= 1  # a low bit of one weight, which no result shows
    data.write_bytes(content)
    done = hx(*CHECK)
    assert done.code == 4 and f"{data.name} has other bytes" in done.err
    assert "its results are those of the certificate" in done.err
    data.unlink()
    assert hx(*CHECK).code == 4 and "is missing" in hx(*CHECK).err


def test_a_wrong_file_is_seen_though_its_digest_was_made_again(hx, folder):
    assert hx(*WORDS, "--certificate").code == 0
    changed_weight(folder / "m.onnx")
    plain = hx(*CHECK)
    assert plain.code == 4 and "bytes, and the certified one" in plain.err

    def forge(document):
        document["file"] = {"name": "m.onnx", **fingerprint(folder / "m.onnx")}

    resealed(folder / "m.certificate.json", forge)
    done = hx(*CHECK)
    assert done.code == 4 and "recorded inputs: output: error " in done.err
    assert not any(case["ok"] for case in hx(*CHECK, "--json").json["cases"][:1])


def test_a_key_refuses_what_it_did_not_sign(hx, folder):
    (folder / "key").write_bytes(bytes(range(32)))
    (folder / "other").write_bytes(bytes(32))
    assert hx(*WORDS, "--certificate", "c.json", "--sign-with", "key").code == 0
    check = ("verify", "m.onnx", "--certificate", "c.json")
    right = hx(*check, "--key", "key", "--json").json
    assert right["ok"] and right["signed"] and right["key_checked"]
    assert "--key KEY checks the signature" in hx(*check).err
    wrong = hx(*check, "--key", "other")
    assert wrong.code == 2 and wrong.err.startswith("error[HX205]: c.json is not signed with this")
    resealed(folder / "c.json", lambda document: document.update(model="another"))
    unsigned = hx(*check, "--key", "key")
    assert unsigned.code == 2 and "is not signed, but a key is given" in unsigned.err
    assert hx(*check).code == 0


@pytest.mark.parametrize(
    "text", ["", "no json", "[]", "{}", '{"hx_certificate": 1}', '{"seal": 1, "hx_certificate": 1}']
)
def test_a_file_that_is_no_certificate_is_refused(hx, folder, text):
    assert hx(*WORDS).code == 0
    (folder / "m.certificate.json").write_text(text)
    done = hx(*CHECK)
    assert done.code == 2 and "is not a certificate, or is truncated" in done.err


def test_a_changed_certificate_is_damaged(hx, folder):
    assert hx(*WORDS, "--certificate").code == 0
    path = folder / "m.certificate.json"
    path.write_text(path.read_text().replace('"opset": 20', '"opset": 21'))
    assert "is damaged" in hx(*CHECK).err
    path.write_text(path.read_text().replace('"hx_certificate": "1"', '"hx_certificate": "9"'))
    assert "in format 9, and this hx reads 1" in hx(*CHECK).err


@pytest.mark.parametrize("part", ["cases", "file", "optimised"])
def test_a_certificate_that_lacks_a_part_is_one_message(hx, folder, part):
    assert hx(*WORDS, "--certificate").code == 0
    resealed(folder / "m.certificate.json", lambda document: document.pop(part))
    done = hx(*CHECK)
    assert done.code == 2 and "does not hold what it should" in done.err


def test_options_that_do_not_go_together_are_refused(hx, folder):
    (folder / "short").write_bytes(b"1234")
    for words, told in (
        ((*WORDS, "--certificate", "--no-verify"), "--no-verify leaves it out"),
        ((*WORDS, "--sign-with", "key"), "--sign-with goes with --certificate only"),
        ((*WORDS, "--certificate", "--sign-with", "none"), "the key none cannot be read"),
        ((*WORDS, "--certificate", "--sign-with", "short"), "needs at least 16"),
        ((*WORDS, "--certificate=c.txt"), "a certificate ends in .json"),
        (("verify", "m.onnx"), "there is no SPEC"),
        (("verify", "m.onnx", "models.py:line", "--key", "short"), "--key goes with --certificate"),
    ):
        done = hx(*words)
        assert done.code == 2 and told in done.err, done.told
    assert hx(*WORDS, "--certificate").code == 0
    assert "SPEC is about a model" in hx(*CHECK, "models.py:line").err
    assert "--seed is about a model" in hx(*CHECK, "--seed", "3").err
    assert "there is no file none.onnx" in hx(*CHECK[:-1], "none.onnx").err


class Mixed(torch.nn.Module):
    """Results of several dtypes, one of them large, one random, one with infinite values."""

    def forward(self, x):
        large = x.repeat(1, 300) * 2
        return large, x > 0, x.to(torch.bfloat16), torch.rand_like(x), x / 0, x.shape[0]


def test_results_of_any_dtype_are_stored_and_large_ones_as_a_sample(tmp_path, limit):
    limit(BUDGET.elements, certified=100)
    path = tmp_path / "m.onnx"
    program = exporter.export(Mixed(), (torch.randn(3, 5),), path, dynamic={"x": {0: "n"}})
    target = program.certify()
    assert target == tmp_path / "m.certificate.json"
    document, signed = sealing.read(target)
    assert not signed
    first = document["cases"][0]["outputs"]
    assert [each["dtype"] for each in first] == [
        "float32", "bool", "bfloat16", "float32", "float32", "int64",
    ]  # fmt: skip
    assert unpacked(first[0]["places"]).size == 100 == unpacked(first[0]["values"]).size
    assert first[3]["compared"] == "dtype and rank" and "values" not in first[3]
    found = recheck.recheck(document, path)
    assert found.ok and any(output.sampled for output in found.cases[0].outputs)


def test_cases_are_stored_within_a_limit_and_the_recorded_one_always(tmp_path, limit):
    limit(BUDGET.bytes, certificate=100)
    path = tmp_path / "m.onnx"
    program = exporter.export(torch.nn.Linear(64, 3), (torch.randn(2, 64),), path)
    document, _ = sealing.read(program.certify(tmp_path / "c.json"))
    assert [case["name"] for case in document["cases"]] == ["recorded"]
    assert document["left_out"]["beyond the size of a certificate"] > 1
    assert recheck.recheck(document, path).ok


def test_a_result_as_near_to_float64_as_the_models_own_is_compared_with_that(tmp_path):
    path = tmp_path / "m.onnx"
    program = exporter.export(torch.nn.Linear(8, 3), (torch.randn(2, 8),), path)
    subject, proof = program._subject, program.proof
    with torch.no_grad():
        exact = subject.recipe.call.root.double()(subject.recipe.inputs["input"].double())
    subject.recipe.call.root.float()
    subject.cases[0].exact = [exact]
    proof.cases[0].outputs[0].as_near = True
    document, _ = sealing.read(program.certify())
    assert document["cases"][0]["outputs"][0]["compared"] == "model in float64"
    assert unpacked(document["cases"][0]["outputs"][0]["values"]).dtype == np.float64


def test_a_program_without_a_proof_or_a_file_has_no_certificate(tmp_path):
    model, args = torch.nn.Linear(4, 3), (torch.randn(2, 4),)
    for options in ({"path": None}, {"path": tmp_path / "m.onnx", "verify": False}):
        with pytest.raises(exporter.UsageError, match="no certificate"):
            exporter.export(model, args, **options).certify(tmp_path / "c.json")
    program = exporter.export(model, args, tmp_path / "m.onnx")
    changed_weight(tmp_path / "m.onnx")
    with pytest.raises(exporter.VerificationError, match="not the one that was proved"):
        program.certify()


def test_an_array_is_unpacked_only_if_it_is_what_it_says():
    array = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert (unpacked(packed(array)) == array).all()
    bomb = base64.b64encode(zlib.compress(bytes(1 << 20))).decode()
    for change in (
        {"shape": [7]},
        {"shape": [-1]},
        {"dtype": "object"},
        {"data": bomb},
        {"data": "?"},
    ):
        with pytest.raises(ValueError):
            unpacked({**packed(array), **change})


def test_a_batch_may_ask_for_certificates(hx, folder):
    (folder / "list.toml").write_text(
        '[[model]]\nspec = "models.py:with_inputs"\noutput = "m.onnx"\ncertificate = "c.json"\n'
    )
    assert hx("export", "--batch", "list.toml").code == 0
    assert hx("verify", "--certificate", "c.json", "m.onnx").code == 0
