"""Damaged and hostile inputs to every command: exit 0 or 2, at most one line, nothing left behind."""

from __future__ import annotations

import gzip
import os
import pickle
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from otel_torchprof.cli.main import main
from otel_torchprof.exporters import export, exporter_names
from otel_torchprof.recording import EventKind, LinkType, Recording, RecordingBuilder, StepFlags, TrackKind
from tests.support.otlp_sink import OtlpHttpSink

ENDINGS = {"tprof": ".tprof", "otlp": ".otlp", "otlp-json": ".jsonl", "chrome": ".json"}


def small_recording() -> Recording:
    builder = RecordingBuilder()
    main_thread = builder.add_track("main", process_id=4, thread_id=5)
    stream = builder.add_track("stream 7", TrackKind.STREAM, thread_id=7, device=0)
    op = builder.add_event('aten::mm "é', 1_000, 9_000, track=main_thread, overload="out")
    call = builder.add_event("cudaLaunchKernel", 2_000, 3_000, track=main_thread, kind=EventKind.RUNTIME)
    kernel = builder.add_event("gemm", 4_000, 8_000, track=stream, kind=EventKind.KERNEL)
    builder.add_link(call, kernel, LinkType.LAUNCH)
    builder.add_link(kernel, op, LinkType.OTHER)
    builder.add_step(500, 9_500, 3, track=main_thread, flags=StepFlags.HAS_NUMBER)
    return builder.finish()


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """A small recording in each format that is both read and written."""
    folder = tmp_path_factory.mktemp("sound")
    files = {}
    for name, ending in ENDINGS.items():
        export(small_recording(), folder / f"run{ending}", name)
        files[name] = (folder / f"run{ending}").read_bytes()
    return files


@pytest.fixture(scope="module")
def endpoint() -> Iterator[str]:
    with OtlpHttpSink() as sink:
        yield sink.endpoint


def commands(source: Path, folder: Path, endpoint: str) -> Iterator[list[str]]:
    yield ["info", str(source)]
    yield ["info", str(source), "--json"]
    yield ["report", str(source)]
    yield ["report", str(source), "-o", str(folder / "page.html")]
    yield ["replay", str(source), "--endpoint", endpoint]
    for name in exporter_names():
        yield ["convert", str(source), str(folder / f"out-{name}"), "--to", name]


@contextmanager
def working_folder(factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = factory.mktemp("case")
    yield folder
    # Also what a later step would find: half-written files under a temporary name.
    assert not list(folder.rglob(".torchprof*"))


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> int:
    """The exit code of a command that says at most one line about what went wrong."""
    code = main(arguments)
    said = capsys.readouterr().err
    assert code in {0, 2}, arguments
    assert said.count("\n") == (1 if code else 0), said
    return code


MUTATIONS = st.lists(
    st.tuples(
        st.sampled_from(("flip", "cut", "remove", "insert", "repeat")),
        st.floats(0, 1, exclude_max=True),
        st.integers(0, 255),
    ),
    min_size=1,
    max_size=4,
)


def mutated(data: bytes, mutations: list[tuple[str, float, int]]) -> bytes:
    content = bytearray(data)
    for how, where, value in mutations:
        place = int(where * len(content))
        if how == "flip" and content:
            content[place] ^= 1 << value % 8
        elif how == "cut":
            del content[place:]
        elif how == "remove":
            del content[place : place + value]
        elif how == "insert":
            content[place:place] = bytes([value]) * (1 + value % 9)
        elif how == "repeat":
            content[place:place] = content[place : place + value]
    return bytes(content)


@settings(
    max_examples=25,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(name=st.sampled_from(list(ENDINGS)), mutations=MUTATIONS, is_packed=st.booleans())
def test_damaged_files(
    name: str,
    mutations: list[tuple[str, float, int]],
    is_packed: bool,
    sound: dict[str, bytes],
    endpoint: str,
    tmp_path_factory: pytest.TempPathFactory,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with working_folder(tmp_path_factory) as folder:
        content = mutated(sound[name], mutations)
        source = folder / "in"
        source.write_bytes(gzip.compress(content) if is_packed else content)
        for arguments in commands(source, folder, endpoint):
            run(arguments, capsys)


def hostile_inputs(folder: Path) -> Iterator[Path]:
    contents = {
        "empty": b"",
        "pickle": pickle.dumps({"trace": 1}),
        "packed twice": gzip.compress(gzip.compress(bytes(1 << 20))),
        "deep array": b"[" * 200_000,
        "deep object": b'{"traceEvents":' + b'{"a":' * 200_000,
        "no trace": b'{"a": 1}',
    }
    for name, content in contents.items():
        (folder / name).write_bytes(content)
        yield folder / name
    os.mkfifo(folder / "fifo")
    yield folder / "fifo"
    yield folder / "missing"


def test_what_no_command_can_read_is_exit_2_and_one_line(
    tmp_path_factory: pytest.TempPathFactory, endpoint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with working_folder(tmp_path_factory) as folder:
        for source in hostile_inputs(folder):
            for arguments in commands(source, folder, endpoint):
                code = run(arguments, capsys)
                assert code == 2 or source.name == "deep object", arguments


def test_a_socket_is_no_input(
    tmp_path_factory: pytest.TempPathFactory, endpoint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with working_folder(tmp_path_factory) as folder, socket.socket(socket.AF_UNIX) as server:
        server.bind(str(folder / "socket"))
        for arguments in commands(folder / "socket", folder, endpoint):
            assert run(arguments, capsys) == 2


@pytest.mark.parametrize("name", exporter_names())
def test_an_output_that_cannot_be_written_is_exit_2_and_one_line(
    name: str, sound: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "in.tprof").write_bytes(sound["tprof"])
    blocked = tmp_path / "file" / "out"
    (tmp_path / "file").write_bytes(b"")
    assert run(["convert", str(tmp_path / "in.tprof"), str(blocked), "--to", name], capsys) == 2
    assert (tmp_path / "file").read_bytes() == b""


def test_an_input_is_never_its_own_output(
    sound: dict[str, bytes], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "run.json"
    source.write_bytes(sound["chrome"])
    (tmp_path / "link.json").symlink_to(source)
    for target in (source, tmp_path / "link.json"):
        assert run(["convert", str(source), str(target)], capsys) == 2
        assert source.read_bytes() == sound["chrome"]
