"""The instrumentor: by hand, loaded automatically, with bad settings, in children of all kinds."""

from __future__ import annotations

import logging
import threading
from collections import Counter
from importlib.metadata import entry_points, requires
from pathlib import Path
from typing import Any

import pytest
import torch
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from packaging.requirements import Requirement

import otel_torchprof
from otel_torchprof.config import SettingError
from otel_torchprof.instrumentor import TorchprofInstrumentor
from tests.integration.programs.plain_loop import train
from tests.support.instrumented import Finished, attributes_of, run_command, run_instrumented

PROGRAM = str(Path(__file__).with_name("programs") / "plain_loop.py")
EVERY_STEP = "active=1"


def test_by_hand_with_an_exporter_and_a_provider(instrumentor: TorchprofInstrumentor) -> None:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource({"service.name": "by hand"}))
    tracer = provider.get_tracer("test")
    instrumentor.instrument(
        schedule="skip_first=1,active=2,repeat=1",
        max_spans_per_trace=0,
        tracer_provider=provider,
        span_exporter=exporter,
    )
    with tracer.start_as_current_span("job") as job:
        train(4)
    instrumentor.uninstrument()
    spans = exporter.get_finished_spans()
    first, second = sorted((s for s in spans if s.name == "torch.step"), key=lambda s: s.start_time or 0)
    assert [s.attributes["torch.step.number"] for s in (first, second) if s.attributes] == [1, 2]
    # The job holds the first step; the second is a root that is linked to it.
    context = job.get_span_context()
    assert first.parent is not None
    assert (first.parent.trace_id, first.parent.span_id) == (context.trace_id, context.span_id)
    assert second.parent is None
    assert context.span_id in {link.context.span_id for link in second.links}
    names = Counter(span.name for span in spans)
    assert names["aten::linear"] == 2
    assert names["Optimizer.step#SGD.step"] == 2
    assert {span.resource.attributes["service.name"] for span in spans} == {"by hand"}


def test_steps_that_the_sampler_refuses_are_not_sent(instrumentor: TorchprofInstrumentor) -> None:
    exporter = InMemorySpanExporter()
    instrumentor.instrument(
        schedule=EVERY_STEP, tracer_provider=TracerProvider(sampler=ALWAYS_OFF), span_exporter=exporter
    )
    train(3)
    instrumentor.uninstrument()
    assert exporter.get_finished_spans() == ()


def test_uninstrument_leaves_torch_as_it_was(instrumentor: TorchprofInstrumentor) -> None:
    def patched() -> list[object]:
        return [torch.autograd._engine_run_backward, vars(torch.optim.Optimizer)["profile_hook_step"]]

    before = patched()
    for _ in range(2):
        exporter = InMemorySpanExporter()
        instrumentor.instrument(schedule=EVERY_STEP, span_exporter=exporter)
        assert patched() != before
        train(2)
        instrumentor.uninstrument()
        assert patched() == before
        assert exporter.get_finished_spans()
    assert "otel-torchprof-export" not in {thread.name for thread in threading.enumerate()}


def test_instrumented_again_it_records_again_under_ids_of_its_own(
    instrumentor: TorchprofInstrumentor,
) -> None:
    steps = []
    for _ in range(3):
        exporter = InMemorySpanExporter()
        instrumentor.instrument(schedule="active=1,repeat=1", span_exporter=exporter)
        train(2)
        instrumentor.uninstrument()
        steps += [span for span in exporter.get_finished_spans() if span.name == "torch.step"]
    assert len(steps) == 3
    assert len({span.context.trace_id for span in steps}) == 3
    assert len({span.context.span_id for span in steps}) == 3


@pytest.mark.parametrize("setting", [{"schedule": "now"}, {"interval": -1}, {"step": "layer"}])
def test_by_hand_a_bad_value_raises(instrumentor: TorchprofInstrumentor, setting: dict[str, object]) -> None:
    with pytest.raises(SettingError):
        instrumentor.instrument(**setting)
    assert not instrumentor.is_instrumented_by_opentelemetry


_NO_STEP = (
    "otel-torchprof: no step was seen: in a program that serves set OTEL_PYTHON_TORCHPROF_STEP=module, "
    "in any other call otel_torchprof.step() where one ends"
)


def no_step_messages(caplog: pytest.LogCaptureFixture) -> list[tuple[int, str]]:
    return [
        (record.levelno, record.message) for record in caplog.records if "no step was seen" in record.message
    ]


def test_explicit_steps_that_never_come_are_missed_at_the_end(
    instrumentor: TorchprofInstrumentor, caplog: pytest.LogCaptureFixture
) -> None:
    instrumentor.instrument(step="explicit", span_exporter=InMemorySpanExporter())
    train(2)
    instrumentor.uninstrument()
    message = (
        "otel-torchprof: no step was seen: call otel_torchprof.step() where one ends, "
        "which OTEL_PYTHON_TORCHPROF_STEP=explicit leaves to the program"
    )
    assert no_step_messages(caplog) == [(logging.WARNING, message)]
    instrumentor.instrument(step="explicit", span_exporter=InMemorySpanExporter())
    otel_torchprof.step()
    instrumentor.uninstrument()
    assert len(no_step_messages(caplog)) == 1


def test_a_program_that_does_not_train_is_told_so_only_when_it_listens(
    instrumentor: TorchprofInstrumentor, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="otel_torchprof")
    instrumentor.instrument(span_exporter=InMemorySpanExporter())
    instrumentor.uninstrument()
    instrumentor.instrument(span_exporter=InMemorySpanExporter())
    train(1)
    instrumentor.uninstrument()
    assert no_step_messages(caplog) == [(logging.INFO, _NO_STEP)]


def test_a_program_that_runs_ops_and_no_step_is_told_so(
    instrumentor: TorchprofInstrumentor, caplog: pytest.LogCaptureFixture
) -> None:
    instrumentor.instrument(span_exporter=InMemorySpanExporter())
    torch.ones(2).cos()
    instrumentor.uninstrument()
    assert no_step_messages(caplog) == [(logging.WARNING, _NO_STEP)]


def test_a_program_that_answers_batches_misses_no_step(
    instrumentor: TorchprofInstrumentor, caplog: pytest.LogCaptureFixture
) -> None:
    exporter = InMemorySpanExporter()
    instrumentor.instrument(schedule="active=1", span_exporter=exporter)
    with otel_torchprof.batch([]):
        torch.ones(2).cos()
    instrumentor.uninstrument()
    assert "torch.batch" in {span.name for span in exporter.get_finished_spans()}
    assert no_step_messages(caplog) == []


@pytest.mark.parametrize(
    ("options", "steps", "said"),
    [
        (
            {},
            1,
            "the program ended after 1 step, and by default the third is the first to be recorded; "
            "OTEL_PYTHON_TORCHPROF_SCHEDULE=active=1,repeat=1 records the first",
        ),
        (
            {},
            2,
            "the program ended after 2 steps, and by default the third is the first to be recorded; "
            "OTEL_PYTHON_TORCHPROF_SCHEDULE=active=1,repeat=1 records the first",
        ),
        (
            {"schedule": "wait=5"},
            2,
            "the program ended after 2 steps, before one that OTEL_PYTHON_TORCHPROF_SCHEDULE records "
            "had run an op",
        ),
        ({"schedule": "active=1,repeat=1"}, 2, None),
        ({"mode": "metrics"}, 2, None),
        ({}, 3, None),
    ],
)
def test_a_program_too_short_for_its_schedule_is_told_why_nothing_was_recorded(
    instrumentor: TorchprofInstrumentor,
    caplog: pytest.LogCaptureFixture,
    options: dict[str, Any],
    steps: int,
    said: str | None,
) -> None:
    instrumentor.instrument(span_exporter=InMemorySpanExporter(), **options)
    train(steps)
    instrumentor.uninstrument()
    messages = [record.message for record in caplog.records if "nothing was recorded" in record.message]
    assert messages == ([] if said is None else [f"otel-torchprof: nothing was recorded: {said}"])


def test_by_hand_an_unknown_option_raises(instrumentor: TorchprofInstrumentor) -> None:
    with pytest.raises(TypeError, match="unknown option intervall"):
        instrumentor.instrument(intervall=3)


@pytest.mark.parametrize("options", [{"mode": "off"}, {"enabled": False}, {"skip_dep_check": True}])
def test_variables_that_are_no_settings_are_said_in_one_line_without_their_values(
    options: dict[str, Any],
    instrumentor: TorchprofInstrumentor,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("MODE", "RECORD_SHAPE", "INTERVALL", "ZZ"):
        monkeypatch.setenv(f"OTEL_PYTHON_TORCHPROF_{name}", "off")
    instrumentor.instrument(**options)
    assert [line for line in caplog.messages if "ZZ" in line] == [
        "otel-torchprof: ignored: "
        "OTEL_PYTHON_TORCHPROF_INTERVALL is no setting (set OTEL_PYTHON_TORCHPROF_INTERVAL), "
        "OTEL_PYTHON_TORCHPROF_RECORD_SHAPE is no setting (set OTEL_PYTHON_TORCHPROF_RECORD_SHAPES), "
        "OTEL_PYTHON_TORCHPROF_ZZ is no setting (docs/configuration.md lists the settings)"
    ]


@pytest.mark.parametrize("options", [{}, {"skip_dep_check": True}])
def test_what_the_environment_disables_is_said_to_who_asks(
    options: dict[str, Any],
    instrumentor: TorchprofInstrumentor,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caplog.set_level(logging.INFO)
    monkeypatch.setenv("OTEL_PYTHON_TORCHPROF_ENABLED", "No")
    instrumentor.instrument(**options)
    assert [(record.levelname, record.message) for record in caplog.records] == [
        ("INFO", "otel-torchprof: off, by OTEL_PYTHON_TORCHPROF_ENABLED=No")
    ]


def test_what_the_program_disables_itself_says_nothing(
    instrumentor: TorchprofInstrumentor, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    instrumentor.instrument(enabled=False)
    assert caplog.messages == []


def test_what_is_instrumented_is_said_twice_alike() -> None:
    (ours,) = (Requirement(text) for text in TorchprofInstrumentor().instrumentation_dependencies())
    extras = [Requirement(text) for text in requires("otel-torchprof") or []]
    (extra,) = [r for r in extras if r.marker and r.marker.evaluate({"extra": "instruments"})]
    assert (ours.name, ours.specifier) == (extra.name, extra.specifier)


def test_the_entry_point_is_the_class() -> None:
    (entry,) = entry_points(group="opentelemetry_instrumentor", name="torchprof")
    assert entry.load() is TorchprofInstrumentor


def step_numbers(finished: Finished) -> list[int]:
    return sorted(attributes_of(step)["torch.step.number"] for step in finished.named("torch.step"))


def test_a_schedule_from_the_start_records_from_torchs_import_to_the_exit(tmp_path: Path) -> None:
    finished = run_instrumented([PROGRAM, "train"], tmp_path, {"SCHEDULE": EVERY_STEP})
    assert step_numbers(finished) == [0, 1, 2, 3, 4]
    assert finished.stderr == ""


def test_recordings_are_kept_where_asked(tmp_path: Path) -> None:
    settings = {
        "SCHEDULE": "skip_first=1,active=2,repeat=1",
        "RECORDING_DIR": str(tmp_path / "kept" / "here"),
    }
    run_instrumented([PROGRAM, "train"], tmp_path, settings | {"RUN_ID": "../night run"})
    (path,) = (tmp_path / "kept" / "here").iterdir()
    assert path.name.startswith("_night_run-0-rank0-")
    assert path.name.endswith("-step1.tprof")
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_bad_setting_stops_neither_the_program_nor_other_instrumentations(tmp_path: Path) -> None:
    finished = run_instrumented([PROGRAM, "train"], tmp_path, {"SCHEDULE": "sometimes"})
    assert finished.spans == []
    assert "OTEL_PYTHON_TORCHPROF_SCHEDULE='sometimes' is not accepted" in finished.stderr
    assert "Traceback" not in finished.stderr


def test_a_forked_child_records_steps_of_its_own(tmp_path: Path) -> None:
    finished = run_instrumented([PROGRAM, "fork"], tmp_path, {"SCHEDULE": "skip_first=1,active=2,repeat=1"})
    assert step_numbers(finished) == [1, 2]


def test_a_spawned_child_is_recorded(tmp_path: Path) -> None:
    finished = run_instrumented([PROGRAM, "spawn"], tmp_path, {"SCHEDULE": "skip_first=1,active=2,repeat=1"})
    assert step_numbers(finished) == [1, 2]


def test_a_data_loader_worker_is_not_recorded(tmp_path: Path) -> None:
    finished = run_instrumented([PROGRAM, "load"], tmp_path, {"SCHEDULE": EVERY_STEP})
    assert step_numbers(finished) == [0]  # of the program itself
    assert finished.named("aten::cos") == []


def test_ranks_of_torchrun_are_recorded_and_the_agent_is_not(tmp_path: Path) -> None:
    command = ["torchrun", "--standalone", "--nproc-per-node=2", PROGRAM, "rank"]
    finished = run_command(command, tmp_path, {"SCHEDULE": "skip_first=2,active=1,repeat=1"})
    assert step_numbers(finished) == [2, 2]
    assert len({step["traceId"] for step in finished.named("torch.step")}) == 2
