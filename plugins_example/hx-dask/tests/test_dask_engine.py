"""Lists of models on a real dask cluster."""

import json
import os
import signal
import subprocess
import sys

import pytest

from hx.testing import engine_kit

pytest.importorskip("distributed")


@pytest.fixture
def scheduler(tmp_path_factory):
    """The address of a scheduler without workers."""
    file = tmp_path_factory.mktemp("dask") / "scheduler.json"
    command = ["scheduler", "--port", "0", "--no-dashboard", "--scheduler-file", str(file)]
    with started(*command) as process:
        engine_kit.wait_for(file.parent, file.name)
        yield json.loads(file.read_text())["address"]
        os.killpg(process.pid, signal.SIGKILL)


def started(*words, **settings):
    """A `dask` command in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, "-m", "dask", *words],
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        **settings,
    )


def test_faults(tmp_path):
    engine_kit.check_faults(tmp_path, "--on", "dask", "--jobs", "2")


def test_restart(tmp_path):
    engine_kit.check_restart(tmp_path, 6, "--on", "dask", "--jobs", "1")


def test_interrupt(tmp_path):
    engine_kit.check_interrupt(tmp_path, "--on", "dask", "--jobs", "1")


def test_a_machine_that_is_lost(tmp_path, scheduler):
    """The scheduler runs on another worker what was running on the lost one."""
    engine_kit.write_list(tmp_path, ["slow", *engine_kit.small(3)])
    worker = ("worker", scheduler, "--nthreads", "1", "--no-dashboard")
    with started(*worker) as lost, started(*worker) as other:
        process = engine_kit.start(tmp_path, "--on", f"dask:{scheduler}")
        running = engine_kit.ancestors(engine_kit.slow_process(tmp_path))
        victim = next(each for each in (lost, other) if each.pid in running)
        os.killpg(victim.pid, signal.SIGKILL)
        found = engine_kit.rows(process)
        for each in (lost, other):
            if each is not victim:
                os.killpg(each.pid, signal.SIGKILL)
    assert {row["state"] for row in found.values()} == {"ok"}, found
    assert found["slow"]["tries"] == 2
    engine_kit.require_order(tmp_path, found)


WITHOUT = "raise ModuleNotFoundError(\"No module named 'hx'\")\n"
OTHER = "Metadata-Version: 2.1\nName: hx\nVersion: 9.9\n"


@pytest.mark.parametrize(
    "file, text, said",
    [
        ("hx/__init__.py", WITHOUT, "has no hx"),
        ("hx-9.9.dist-info/METADATA", OTHER, "has hx 9.9, and here"),
    ],
)
def test_workers_that_do_not_fit(tmp_path, tmp_path_factory, scheduler, file, text, said):
    """One message, and nothing runs."""
    first = tmp_path_factory.mktemp("first on the path")
    (first / file).parent.mkdir()
    (first / file).write_text(text)
    path = os.pathsep.join(filter(None, [str(first), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONPATH": path}
    engine_kit.write_list(tmp_path, engine_kit.small(2))
    words = ("worker", scheduler, "--nthreads", "1", "--no-dashboard")
    with started(*words, env=environment) as worker:
        process = engine_kit.start(tmp_path, "--on", f"dask:{scheduler}")
        _, err = process.communicate()
        os.killpg(worker.pid, signal.SIGKILL)
    assert process.returncode == 2 and said in err, err
    assert not list(tmp_path.glob("*.onnx"))


@pytest.mark.parametrize("has_scheduler", [False, True])
def test_a_cluster_that_does_not_answer(tmp_path, request, has_scheduler, monkeypatch):
    address = request.getfixturevalue("scheduler") if has_scheduler else "tcp://127.0.0.1:1"
    said = "has no workers" if has_scheduler else "no dask scheduler answers"
    monkeypatch.setenv("HX_DASK_PATIENCE", "2")
    engine_kit.write_list(tmp_path, ["small_0"])
    process = engine_kit.start(tmp_path, "--on", f"dask:{address}")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2 and said in err and address in err
    assert not list(tmp_path.glob("*.onnx"))
