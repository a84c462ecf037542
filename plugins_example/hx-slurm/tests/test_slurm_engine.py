"""Lists of models on a real submitit executor, with jobs that are processes of this machine."""

import os
import shutil
import signal

import pytest

from hx.testing import engine_kit

pytest.importorskip("submitit")


def test_faults(tmp_path):
    engine_kit.check_faults(tmp_path, "--on", "slurm:local", "--jobs", "2")


def test_restart(tmp_path):
    engine_kit.check_restart(tmp_path, 6, "--on", "slurm:local", "--jobs", "1")


def test_interrupt(tmp_path):
    engine_kit.check_interrupt(tmp_path, "--on", "slurm:local", "--jobs", "1")


def test_a_node_that_is_lost(tmp_path):
    """The job and all of its processes are gone at once; what it had still to do goes to another."""
    engine_kit.write_list(tmp_path, ["small_0", "slow", *engine_kit.small(4)[1:]])
    process = engine_kit.start(tmp_path, "--on", "slurm:local", "--jobs", "1")
    running = engine_kit.ancestors(engine_kit.slow_process(tmp_path))
    for lost in running[: running.index(process.pid)]:
        os.kill(lost, signal.SIGKILL)
    found = engine_kit.rows(process)
    assert {row["state"] for row in found.values()} == {"ok"}, found
    assert found["slow"]["tries"] == 2 and found["small_0"]["tries"] == 1
    engine_kit.require_order(tmp_path, found)


@pytest.mark.skipif(shutil.which("sbatch") is not None, reason="there is a Slurm here")
def test_a_machine_without_slurm(tmp_path):
    engine_kit.write_list(tmp_path, ["small_0"])
    process = engine_kit.start(tmp_path, "--on", "slurm")
    _, err = process.communicate(timeout=120)
    assert process.returncode == 2 and "there is no Slurm on this machine" in err
    assert "--on slurm:local" in err
