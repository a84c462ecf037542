"""Workers that cannot run a job say why, before it starts."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

from hx.batch import coordinator
from hx.batch.job import Answer, Job, software
from hx.batch.worker import carry_out, unfitness
from hx.contributions import WorkerLost
from hx.errors import UsageError


@pytest.fixture
def job(tmp_path):
    (tmp_path / "lease").touch()
    return Job(1, "no.such.module", {}, str(tmp_path), str(tmp_path / "lease"), software())


def test_a_worker_that_fits_notes_the_start(job):
    assert unfitness(job) == "" and unfitness(job) == ""
    assert len(Path(job.lease).read_text().splitlines()) == 2


@pytest.mark.parametrize(
    "changed, said",
    [
        ({"hx": "0.0.1"}, "has hx "),
        ({"pack hx-mine[mine]": "1.0"}, "has pack hx-mine[mine] is missing, and here 1.0"),
    ],
)
def test_other_software(job, changed, said):
    other = replace(job, software={**job.software, **changed})
    answer = carry_out(other)
    assert answer.ended == "unfit" and said in answer.errors
    assert "install the same on all workers" in answer.errors
    assert not Path(job.lease).read_text()


def test_a_file_that_the_worker_does_not_see(job, tmp_path):
    answer = carry_out(replace(job, files=(str(tmp_path / "weights.safetensors"),)))
    assert answer.ended == "unfit" and "does not see" in answer.errors
    assert "weights.safetensors" in answer.errors
    Path(job.lease).unlink()
    assert "in a folder that workers share" in carry_out(job).errors


def test_a_process_that_does_not_start_says_its_last_line(job):
    answer = carry_out(job)
    assert answer.ended == "unfit" and "No module named" in answer.errors


class Lost:
    """An engine whose workers die a number of times for each job."""

    def __init__(self, times):
        self.times = times
        self.started = 0

    def submit(self, function, argument):
        future = Future()
        self.started += 1
        if self.started <= self.times:
            future.set_exception(WorkerLost("node 7 is gone"))
        else:
            future.set_result(Answer("here"))
        return future

    def cancel(self, future): ...

    def close(self): ...


@pytest.mark.parametrize("retries, times, started", [(False, 2, 3), (False, 9, 3), (True, 9, 1)])
def test_lost_jobs_are_submitted_again_unless_the_engine_does_it(job, retries, times, started):
    engine, ends = Lost(times), []
    coordinator.run([job], engine, ends.append, retries)
    [end] = ends
    assert engine.started == started
    assert (end.answer is not None) == (times < started)
    assert end.answer is not None or "node 7 is gone" in end.lost


class Without(Lost):
    """An engine whose workers cannot import hx."""

    def submit(self, function, argument):
        future = Future()
        future.set_exception(ModuleNotFoundError("No module named 'hx'"))
        return future


def test_workers_without_hx_are_found_before_anything_runs(job):
    with pytest.raises(UsageError, match="the workers of mine have no hx") as raised:
        coordinator.check(Without(0), "mine", job, lambda: False)
    assert f"pip install hx=={job.software['hx']}" in raised.value.hint
