"""Programs that are ended by signals: what they recorded arrives, and they end as they would without us."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.instrumented import instrumented_environment, script
from tests.support.otlp_sink import HttpAnswer, OtlpHttpSink

PROGRAM = str(Path(__file__).with_name("programs") / "told_to_end.py")


def ended_by(
    number: signal.Signals, sink: OtlpHttpSink, folder: Path, *arguments: str
) -> tuple[int, str, str]:
    """The exit status, the program's output before it waited, and what it said."""
    settings = {
        "SCHEDULE": "skip_first=2,active=100,repeat=1",  # a window that is open to the end
        "OTEL_TRACES_EXPORTER": "otlp",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
        "OTEL_EXPORTER_OTLP_ENDPOINT": sink.endpoint,
    }
    # A shell has what it runs in the background ignore an interrupt, these tests too.
    command = ["env", "--default-signal=INT", script("opentelemetry-instrument"), sys.executable, PROGRAM]
    with subprocess.Popen(
        [*command, *arguments],
        cwd=folder,
        env=instrumented_environment(settings),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as program:
        try:
            assert program.stdout is not None
            output = ""
            while "waiting" not in output:
                line = program.stdout.readline()
                assert line, program.communicate()[1]
                output += line
            program.send_signal(number)
            _rest, said = program.communicate(timeout=60)
        finally:
            program.kill()
    return program.returncode, output, said


@pytest.mark.parametrize("waits_in", ["python", "library"])
def test_what_was_recorded_is_sent_first(waits_in: str, tmp_path: Path) -> None:
    with OtlpHttpSink() as sink:
        status, _output, said = ended_by(signal.SIGTERM, sink, tmp_path, waits_in)
        assert sink.span_names["torch.step"] == 4
    assert (status, said) == (-signal.SIGTERM, "")


def test_an_interrupt_from_the_keyboard_sends_it_too(tmp_path: Path) -> None:
    with OtlpHttpSink() as sink:
        status, _output, said = ended_by(signal.SIGINT, sink, tmp_path)
        assert sink.span_names["torch.step"] == 4
    assert status == -signal.SIGINT
    assert said.splitlines()[-1] == "KeyboardInterrupt"
    assert "otel" not in said  # the program's own traceback, and no word of ours


def test_a_collector_that_hangs_keeps_nobody_for_ever(tmp_path: Path) -> None:
    with OtlpHttpSink(HttpAnswer(hangs=True)) as sink:
        status, _output, said = ended_by(signal.SIGTERM, sink, tmp_path)
    assert status == -signal.SIGTERM
    assert 1 <= said.count("\n") <= 2  # that it did not answer, and that something is lost


def test_a_program_that_handles_the_signal_decides_by_itself(tmp_path: Path) -> None:
    with OtlpHttpSink() as sink:
        status, _output, said = ended_by(signal.SIGTERM, sink, tmp_path, "own-handler")
        assert sink.span_names["torch.step"] == 4  # at its exit
    assert (status, said) == (7, "")


def test_forked_children_end_at_once(tmp_path: Path) -> None:
    with OtlpHttpSink() as sink:
        _status, output, _said = ended_by(signal.SIGTERM, sink, tmp_path, "fork")
    assert f"child ended by {int(signal.SIGTERM)}\n" in output
