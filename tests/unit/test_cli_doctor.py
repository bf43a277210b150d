"""`doctor`: every answer names its cause and the way out, and no secret."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from otel_torchprof._native import core
from otel_torchprof.cli import main as cli
from otel_torchprof.doctor import examination as doctor
from otel_torchprof.doctor.check import Check
from otel_torchprof.doctor.device import describe_cupti
from otel_torchprof.doctor.examination import examine
from otel_torchprof.doctor.places import file_system_of
from otel_torchprof.doctor.sources import HARDWARE_COUNTERS, SOFTWARE_COUNTERS, check_counters
from otel_torchprof.recorder.cgroup_memory import CgroupMemory
from otel_torchprof.recorder.memory_budget import memory_budget
from tests.support.cgroups import lay_cgroups
from tests.support.privileges import bound_by_permissions
from tests.support.terminals import terminal_lines

FOLDER = "OTEL_PYTHON_TORCHPROF_RECORDING_DIR"
SPANS = "OTEL_PYTHON_TORCHPROF_OTLP_FILE"


def check(name: str, **environ: str) -> Check:
    (found,) = [check for check in examine({"PATH": "/usr/bin:/bin", **environ}) if check.name == name]
    return found


def test_the_core_and_the_instrumentation_are_there() -> None:
    assert check("native core").state == "ok"
    assert check("instrumentation").state == "ok"


def test_the_bridge_of_this_build_is_prebuilt() -> None:
    found = check("torch bridge")
    assert (found.state, found.detail.split(":")[0]) == ("ok", "prebuilt")


def test_a_compiler_that_is_not_there_says_so() -> None:
    found = check("C++ compiler", CXX="no-such-compiler")
    assert found.state == "off"
    assert found.detail == "no-such-compiler (from CXX) not found"
    assert "set CXX" in found.way_out


def test_settings_show_names_and_never_values() -> None:
    found = check("settings", OTEL_EXPORTER_OTLP_HEADERS="authorization=s3cret", HOME="/nowhere")
    assert found == Check("settings", "ok", "OTEL_EXPORTER_OTLP_HEADERS")


def test_a_bad_setting_is_missing_with_what_is_accepted() -> None:
    found = check("settings", OTEL_PYTHON_TORCHPROF_MODE="loud")
    assert found.state == "missing"
    assert found.detail.startswith("OTEL_PYTHON_TORCHPROF_MODE='loud' is not accepted")


@pytest.mark.parametrize(
    ("variable", "way_out"),
    [
        ("OTEL_PYTHON_TORCHPROF_SCEDULE", "set OTEL_PYTHON_TORCHPROF_SCHEDULE"),
        ("OTEL_PYTHON_TORCHPROF_" + 40 * "X", "docs/configuration.md lists the settings"),
    ],
)
def test_a_setting_that_does_not_exist_is_named(variable: str, way_out: str) -> None:
    assert check("settings", **{variable: "1"}) == Check(
        "settings", "missing", f"{variable} is no setting", way_out
    )


def test_all_mistakes_in_settings_are_found() -> None:
    prefix = "OTEL_PYTHON_TORCHPROF_"
    found = check(
        "settings",
        **{
            prefix + "INTERVALL": "5",
            prefix + "MAX_OVERHEAD": "2%",
            prefix + "STEP": "x",
            prefix + "MOD": "1",
        },
    )
    assert found == Check(
        "settings",
        "missing",
        f"{prefix}STEP='x' is not accepted (unknown word); "
        f"{prefix}MAX_OVERHEAD='2%' is not accepted (not a number); "
        f"{prefix}INTERVALL is no setting; {prefix}MOD is no setting",
        f"give {prefix}STEP auto, explicit, optimizer or module; "
        f"give {prefix}MAX_OVERHEAD a share of the program's time, more than 0 and at most 1; "
        f"set {prefix}INTERVAL; set {prefix}MODE",
    )


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("OTEL_PYTHON_TORCHPROF_ENABLED", "false"),
        ("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", "requests, torchprof"),
        ("OTEL_PYTHON_DISABLED_INSTRUMENTATIONS", "*"),
    ],
)
def test_a_kill_switch_is_named(variable: str, value: str) -> None:
    assert check("instrumentation", **{variable: value}) == Check(
        "instrumentation", "off", f"turned off by {variable}", "unset it"
    )


def test_a_recording_folder_is_written_to(tmp_path: Path) -> None:
    found = check("recording folder", **{FOLDER: str(tmp_path)})
    assert found.detail.startswith(f"{tmp_path}: {file_system_of(tmp_path)}, ")
    assert list(tmp_path.iterdir()) == []


def test_a_recording_folder_that_is_not_there_yet_can_be_made(tmp_path: Path) -> None:
    new = tmp_path / "new" / "deep"
    found = check("recording folder", **{FOLDER: str(new)})
    assert found.state == check("recording folder", **{FOLDER: str(tmp_path)}).state
    assert found.detail.startswith(f"{new}: {file_system_of(tmp_path)}, ")
    assert list(tmp_path.iterdir()) == []


def test_a_recording_folder_below_a_file_is_missing(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    assert check("recording folder", **{FOLDER: str(file / "folder")}) == Check(
        "recording folder",
        "missing",
        f"{file}/folder: {file} is no folder",
        "choose a folder that this user can write to",
    )


def test_a_recording_folder_where_nothing_can_be_made_names_the_place_and_its_kind() -> None:
    assert check("recording folder", **{FOLDER: "/proc/nope/deeper"}) == Check(
        "recording folder",
        "missing",
        "/proc/nope/deeper: nothing can be made in /proc (proc): No such file or directory",
        "choose a folder that this user can write to",
    )


def spans_file(path: Path | str) -> Check:
    return check("file of spans", OTEL_TRACES_EXPORTER="console,otlp_file", **{SPANS: str(path)})


def test_the_file_of_spans_is_tried(tmp_path: Path) -> None:
    new = tmp_path / "new" / "spans.jsonl"
    assert spans_file(new) == Check("file of spans", "ok", f"{new}, which is made, with its folder")
    there = tmp_path / "spans.jsonl"
    assert spans_file(there).detail == f"{there}, which is made"
    assert list(tmp_path.iterdir()) == []
    there.write_text("{}")
    assert spans_file(there).detail == f"{there}, which is appended to"
    assert there.read_text() == "{}"


def test_a_file_of_spans_that_cannot_be_is_missing_and_why(tmp_path: Path) -> None:
    file, link = tmp_path / "file", tmp_path / "link"
    file.touch()
    link.symlink_to(file)
    for path, why in (
        (file / "spans.jsonl", f"{file} is no folder"),
        (link, "a symbolic link, which is not followed"),
        (tmp_path, "not a regular file"),
        (Path("/proc/nope"), "nothing can be made in /proc (proc): No such file or directory"),
    ):
        assert spans_file(path) == Check("file of spans", "missing", f"{path}: {why}", f"set {SPANS}")


def test_what_may_not_be_looked_into_is_missing(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir()
    closed.chmod(0)
    with bound_by_permissions():
        spans, recordings = (
            spans_file(closed / "spans.jsonl"),
            check("recording folder", **{FOLDER: f"{closed}/r"}),
        )
    closed.chmod(0o700)
    assert (spans.state, spans.detail) == ("missing", f"{closed}/spans.jsonl: Permission denied")
    assert (recordings.state, recordings.detail) == ("missing", f"{closed}/r: Permission denied")


def test_a_file_of_spans_that_nothing_writes_is_said() -> None:
    assert check("file of spans").state == "ok"
    assert check("file of spans", **{SPANS: "spans.jsonl"}) == Check(
        "file of spans",
        "off",
        f"{SPANS} is set, but OTEL_TRACES_EXPORTER does not name otlp_file",
        "set OTEL_TRACES_EXPORTER=otlp_file, or unset it",
    )


def limited(monkeypatch: pytest.MonkeyPatch, root: Path, left_mib: int) -> None:
    lay_cgroups(root, {"": {"memory.max": str(1 << 30)}}, used_bytes=(1 << 30) - (left_mib << 20))
    monkeypatch.setattr(memory_budget, "cgroups", CgroupMemory(root))


def test_a_memory_limit_that_bounds_recordings_is_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    group = tmp_path / "sys/fs/cgroup"
    limited(monkeypatch, tmp_path, left_mib=1000)
    assert check("memory limit", OTEL_PYTHON_TORCHPROF_BUFFER_SIZE_MB="250") == Check(
        "memory limit", "ok", f"1024 MiB, 1000 MiB of them left: {group}"
    )
    found = check("memory limit", OTEL_PYTHON_TORCHPROF_BUFFER_SIZE_MB="400")
    assert found.state == "off"
    assert found.detail.startswith(
        "recordings take 250.0 MiB together instead of up to 400.0 MiB: 25% of what the memory limit of "
        f"{group} leaves, 1,000.0 MiB of 1,024.0 MiB"
    )
    assert found.way_out == "raise the limit, or set OTEL_PYTHON_TORCHPROF_BUFFER_SIZE_MB to less"


def test_without_a_memory_limit_there_is_nothing_to_say(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(memory_budget, "cgroups", CgroupMemory(tmp_path))
    assert check("memory limit") == Check("memory limit", "ok", "none")


def test_the_file_system_is_that_of_the_innermost_mount(tmp_path: Path) -> None:
    mountinfo = tmp_path / "mountinfo"
    inner = tmp_path / "in ner"
    inner.mkdir()
    escaped = str(inner).replace(" ", "\\040")
    mountinfo.write_text(
        "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n"
        f"30 22 0:25 / {escaped} rw shared:2 master:1 - nfs4 server:/x rw\n"
        f"31 22 0:26 / {inner}2 rw - tmpfs tmpfs rw\n"
    )
    assert file_system_of(inner, mountinfo) == "nfs4"
    assert file_system_of(tmp_path, mountinfo) == "ext4"


def test_counters_are_tried() -> None:
    software, hardware = check("software counters"), check("hardware counters")
    states, _read_ns, _without_kernel = core.try_counters([*SOFTWARE_COUNTERS])
    counted = [name for name, counts, _remark in states if counts]
    assert software.state == ("ok" if counted else "off")
    assert software.detail.startswith(f"{', '.join(counted)} count; reading them takes " if counted else "")
    states, _read_ns, _without_kernel = core.try_counters([*HARDWARE_COUNTERS])
    if not any(counts for _name, counts, _remark in states):
        assert hardware.state == "off"
        assert set(hardware.detail.partition(": ")[0].split(", ")) <= set(HARDWARE_COUNTERS)
        assert hardware.way_out


def test_a_counter_that_is_not_there_is_named_beside_those_that_are() -> None:
    found = check_counters("some", ("page-faults", "nonsense", "noise"))
    assert found.detail.endswith("noise, nonsense: no event has this name")
    assert found.way_out == "`perf list` shows those there are"


CUPTI = {
    "available": True,
    "reason": "",
    "library": "/site/nvidia/cu13/lib/libcupti.so.13",
    "cupti_version": 130_000,
    "driver_version": 12_080,
    "devices": 1,
    "subscriber": "",
}


def test_cupti_that_works_is_told_with_its_versions() -> None:
    detail = "driver for CUDA 12.8; CUPTI 13.0: /site/nvidia/cu13/lib/libcupti.so.13; 1 device"
    assert describe_cupti(CUPTI) == Check("CUDA devices", "ok", detail)


@pytest.mark.parametrize(
    ("driver_version", "devices", "state"),
    [(0, -1, "off"), (13_000, 0, "off"), (13_000, 2, "missing"), (13_000, -1, "missing")],
)
def test_cupti_that_does_not_work_is_missing_only_where_there_may_be_a_device(
    driver_version: int, devices: int, state: str
) -> None:
    none = {"library": "", "cupti_version": 0, "driver_version": driver_version}
    reason = "no libcupti: looked in 2 places; pip install nvidia-cuda-cupti"
    found = describe_cupti({**CUPTI, **none, "available": False, "reason": reason, "devices": devices})
    assert found.state == state
    assert found.detail.split("; ")[0] == "no libcupti: looked in 2 places"
    assert found.way_out == "pip install nvidia-cuda-cupti"


def test_another_subscriber_is_named() -> None:
    found = describe_cupti({**CUPTI, "cupti_version": 26, "subscriber": "Nsight Systems"})
    assert found.state == "missing"
    assert found.detail.startswith(
        "Nsight Systems has CUPTI, which serves one at a time; driver for CUDA 12.8"
    )
    assert "CUPTI API 26" in found.detail


def test_the_device_is_off_where_the_setting_says_so() -> None:
    assert check("CUDA devices", OTEL_PYTHON_TORCHPROF_DEVICE="off") == Check(
        "CUDA devices", "off", "turned off by OTEL_PYTHON_TORCHPROF_DEVICE", "unset it"
    )


def test_counters_of_the_device_are_not_available_and_why() -> None:
    found = check("counters of CUDA devices")
    assert found.state == "off"
    assert found.detail.startswith("not available: ")
    assert found.way_out


def test_a_check_that_fails_does_not_hide_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    def check_moon(_environ: object) -> Check:
        raise ValueError("it is day")

    monkeypatch.setattr(doctor, "CHECKS", (check_moon, doctor.check_torch))
    assert [(check.name, check.state) for check in examine({})] == [("moon", "missing"), ("torch", "ok")]
    assert examine({})[0].detail == "the check failed: ValueError: it is day"


@pytest.mark.parametrize("width", [40, 120])
def test_a_terminal_has_room_for_what_is_said(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    def check_devices(_environ: object) -> Check:
        return Check("counters of CUDA devices", "ok", "not available; " * 20, "take them from DCGM")

    monkeypatch.setattr(doctor, "CHECKS", (check_devices,))
    first, *said = terminal_lines(monkeypatch, width, ["doctor"])
    assert max(map(len, [first, *said])) <= width
    is_table = width > 100
    assert first.split() == ["ok", "counters", "of", "CUDA", "devices"] or is_table
    # Sentences, not a word a line.
    assert all(len(line.strip()) > 20 for line in said[:-1])
    assert said[-1].endswith("-> take them from DCGM")
    assert said[-1].index("->") == (30 if is_table else 2)


def test_the_command_exits_1_when_something_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checks = {"ok": Check("a", "ok", "fine"), "missing": Check("b", "missing", "no\x1b[2J", "get one")}
    monkeypatch.setattr(doctor, "CHECKS", (lambda _environ: checks["ok"],))
    assert cli.main(["doctor"]) == 0
    assert capsys.readouterr().out.split() == ["ok", "a", "fine"]

    monkeypatch.setattr(doctor, "CHECKS", (lambda _environ: checks["missing"],))
    assert cli.main(["doctor"]) == 1
    assert capsys.readouterr().out.split() == ["missing", "b", "no\\x1b[2J", "->", "get", "one"]

    assert cli.main(["doctor", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == [
        {"name": "b", "state": "missing", "detail": "no\x1b[2J", "way_out": "get one"}
    ]
