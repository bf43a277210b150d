"""`report` on devices: how busy, with which kernels, and where the program waited."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from otel_torchprof.cli import main
from tests.support.device_programs import DeviceProgram


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    program = DeviceProgram()
    with program.op("aten::mm"):
        program.kernel("void gemm<float, 128>(float*)", us=70)
        program.kernel("void gemm<float, 64>(float*)", us=20)
    with program.op("aten::item"):
        program.copy("Memcpy DtoH (Device -> Pinned)", 4096, us=10)
        program.runtime("cudaStreamSynchronize")
    program.finish().save(tmp_path / "run.tprof")
    return tmp_path / "run.tprof"


def test_a_terminal_shows_each_device_its_kernels_and_the_waits(
    recording: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    assert main(["report", str(recording)]) == 0
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert (
        "device 0: 100.0% busy (kernels 90.0%, copies 10.0%), 0.0% idle, 0.0% waiting for launches "
        "(1 of 2 kernels launched when their stream had run dry) of 100.000 us"
    ) in lines
    assert "gemm 2 90.000 us 45.000 us 70.000 us 100.0%" in lines
    (wait,) = [line for line in lines if line.startswith("cudaStreamSynchronize aten::item 1 ")]
    assert wait


def test_json_has_the_same_in_ns(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(recording), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (device,) = document["devices"]
    assert (device["number"], device["busy_ns"], device["idle_ns"], device["copies"]) == (0, 100_000, 0, 1)
    assert document["kernels"] == [
        {"name": "gemm", "calls": 2, "total_ns": 90_000, "longest_ns": 70_000},
    ]
    (wait,) = document["blocking_calls"]
    assert (wait["call"], wait["caller"], wait["calls"]) == ("cudaStreamSynchronize", "aten::item", 1)
    assert wait["total_ns"] == wait["longest_ns"] > 80_000


def test_a_recording_without_devices_has_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = DeviceProgram()
    program.call("aten::add")
    program.finish().save(tmp_path / "run.tprof")
    assert main(["report", str(tmp_path / "run.tprof"), "--json"]) == 0
    assert not {"devices", "kernels", "blocking_calls"} & json.loads(capsys.readouterr().out).keys()
