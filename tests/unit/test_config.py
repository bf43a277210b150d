"""Settings: from the environment, from options, and what becomes of bad values."""

from __future__ import annotations

import logging
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from otel_torchprof import environment_variables
from otel_torchprof.config import (
    SETTINGS,
    Configuration,
    MetricsSampling,
    Mode,
    SettingError,
    Settings,
    StepRule,
)
from otel_torchprof.live.rank_share import RankShare
from otel_torchprof.recorder.schedule import CycleSchedule, IntervalSchedule

PREFIX = "OTEL_PYTHON_TORCHPROF_"
PAGE = Path(__file__).parents[2] / "docs" / "configuration.md"

GOOD: dict[str, tuple[str, str, Any]] = {
    "ENABLED": ("False", "enabled", False),
    "MODE": ("TRACE", "mode", Mode.TRACE),
    "SCHEDULE": ("active=2", "schedule", CycleSchedule(active=2)),
    "INTERVAL": ("0.5", "interval_s", 0.5),
    "STEP": ("explicit", "step", StepRule.EXPLICIT),
    "RECORD_SHAPES": (" on ", "record_shapes", True),
    "PROFILE_MEMORY": ("yes", "profile_memory", True),
    "WITH_STACK": ("1", "with_stack", True),
    "WITH_MODULES": ("true", "with_modules", True),
    "COUNTERS": (
        " task-clock, cpu/event=0x3c,umask=0x1/u ,r01c2,",
        "counters",
        ("task-clock", "cpu/event=0x3c,umask=0x1/u", "r01c2"),
    ),
    "COUNTER_SCOPE": (" Op", "counter_scope", "op"),
    "DEVICE": ("ON", "device", "on"),
    "DEVICE_GRAPHS": ("whole", "device_graphs", "whole"),
    "PATTERNS": ("on", "patterns", True),
    "MAX_SPANS_PER_TRACE": ("0", "max_spans_per_trace", 0),
    "MAX_TRACE_BYTES": ("1.5 MiB", "max_trace_bytes", 1_572_864),
    "MIN_SPAN_DURATION_US": ("2.5", "min_span_duration_us", 2.5),
    "RECORDING_DIR": ("x", "recording_dir", Path.cwd() / "x"),
    "BUFFER_SIZE_MB": ("1", "buffer_size_mb", 1),
    "RUN_ID": ("night 7", "run_id", "night 7"),
    "SPAN_RANKS": (" 3, Rotating", "span_ranks", RankShare(frozenset({3}), rotating=True)),
    "REDACT": (" my.package:Names.redact", "redact", "my.package:Names.redact"),
    "METRICS_SAMPLING": ("FULL", "metrics_sampling", MetricsSampling.FULL),
    "OP_HISTOGRAMS": ("on", "op_histograms", True),
    "MAX_OVERHEAD": ("0.5", "max_overhead", 0.5),
    "OFF_FILE": ("run/off", "off_file", Path.cwd() / "run" / "off"),
    "PROMETHEUS_PORT": ("65535", "prometheus_port", 65_535),
    "PROMETHEUS_HOST": ("::", "prometheus_host", "::"),
}

# value, what it sets when it is loaded automatically
BAD: dict[str, list[str]] = {
    "ENABLED": ["maybe", "2"],
    "MODE": ["all", "trace,metrics"],
    "SCHEDULE": ["5", "active=0", "skip=3"],
    "INTERVAL": ["0", "-1", "soon", "nan", "inf"],
    "STEP": ["layer", "batch"],
    "RECORD_SHAPES": ["some"],
    "PROFILE_MEMORY": ["peak"],
    "WITH_STACK": ["deep"],
    "WITH_MODULES": ["2"],
    "COUNTERS": ["task clock", "cycles;ls", "-1", ",", "cpu/event=1", "cpu/../x/", "a,/b/"],
    "COUNTER_SCOPE": ["step", "all"],
    "DEVICE": ["cuda", "true"],
    "DEVICE_GRAPHS": ["node", "true"],
    "PATTERNS": ["all"],
    "MAX_SPANS_PER_TRACE": ["-1", "2.5", "many", "9223372036854775808"],
    "MAX_TRACE_BYTES": ["-1", "2 MBs", "MB", "nanMB", "1e308MB", "9223372036854775808"],
    "MIN_SPAN_DURATION_US": ["-0.1", "x", "1e16"],
    "BUFFER_SIZE_MB": ["0", "1.5", "32769"],
    "RUN_ID": ["a\nb", "x" * 129],
    "SPAN_RANKS": ["some", "-1", "0;1", "1.5", "all,0", "1234567890", ","],
    "REDACT": ["module", "module:", ":function", "a b:c", "m:f()", "m:f:g"],
    "METRICS_SAMPLING": ["sampled", "0.5"],
    "OP_HISTOGRAMS": ["some"],
    "MAX_OVERHEAD": ["0", "1.01", "2%", "nan"],
    "PROMETHEUS_PORT": ["0", "65536", "http"],
    "PROMETHEUS_HOST": ["http://0.0.0.0", "a b"],
}
SWITCHES_OFF = {"ENABLED", "MODE", "SCHEDULE", "INTERVAL", "STEP", "REDACT"}
BAD_CASES = [(name, value) for name, values in BAD.items() for value in values]


def test_defaults() -> None:
    settings = Settings.from_environment({})
    assert settings == Settings()
    assert settings.records_spans
    assert (settings.interval_s, settings.max_spans_per_trace, settings.max_trace_bytes) == (
        600,
        2_000,
        2_000_000,
    )
    assert isinstance(settings.make_schedule(), IntervalSchedule)


def test_every_setting_is_tried_here() -> None:
    assert {setting.variable for setting in SETTINGS} == {PREFIX + name for name in GOOD}


@pytest.mark.parametrize("name", GOOD)
def test_a_setting_from_the_environment(name: str) -> None:
    text, field, value = GOOD[name]
    settings = Settings.from_environment({PREFIX + name: text})
    assert settings == Settings(**{field: value})
    assert Settings.from_options({}, {PREFIX + name: text}) == settings


@pytest.mark.parametrize("name", GOOD)
def test_an_option_wins_over_the_environment(name: str) -> None:
    text, field, value = GOOD[name]
    environ = {PREFIX + name: BAD.get(name, ["/elsewhere"])[0]}
    assert Settings.from_options({name.lower(): text}, environ) == Settings(**{field: value})


def test_options_of_their_own_types() -> None:
    settings = Settings.from_options(
        {"enabled": False, "interval": 5, "record_shapes": True, "max_trace_bytes": 10, "schedule": None}, {}
    )
    assert settings == Settings(enabled=False, interval_s=5.0, record_shapes=True, max_trace_bytes=10)


@pytest.mark.parametrize("kind", [list, tuple])
def test_counters_may_be_names_in_a_row(kind: type) -> None:
    names = ("task-clock", "page-faults")
    assert Settings.from_options({"counters": kind(names)}, {}).counters == names


def test_the_redaction_hook_may_be_a_function() -> None:
    assert Settings.from_options({"redact": str.upper}, {}).redact == str.upper


def test_an_empty_variable_is_not_set() -> None:
    assert Settings.from_environment({PREFIX + name: " " for name in GOOD}) == Settings()


@pytest.mark.parametrize(("name", "value"), BAD_CASES)
def test_a_bad_value_raises_by_hand(name: str, value: str) -> None:
    for options, environ in (({}, {PREFIX + name: value}), ({name.lower(): value}, {})):
        with pytest.raises(SettingError) as caught:
            Settings.from_options(options, environ)
        message = str(caught.value)
        assert "\n" not in message
        assert name in message.upper()
        assert repr(value) in message
        assert "; give " in message


@pytest.mark.parametrize(("name", "value"), BAD_CASES)
def test_a_bad_value_is_logged_and_that_part_off_when_loaded_automatically(
    name: str, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    settings = Settings.from_environment({PREFIX + name: value})
    if name in SWITCHES_OFF:
        assert not settings.records_spans
    else:
        assert settings == Settings()
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    message = record.getMessage()
    setting = f"{PREFIX}{name}={value!r}"
    if name in SWITCHES_OFF:
        assert message.startswith(f"otel-torchprof: nothing is recorded: {setting} is not accepted (")
    else:
        assert message.startswith(f"otel-torchprof: {setting} is ignored: ")
    assert "; give " in message
    assert "\n" not in message


def test_one_bad_value_leaves_the_others_alone() -> None:
    settings = Settings.from_environment({PREFIX + "MAX_TRACE_BYTES": "big", PREFIX + "INTERVAL": "7"})
    assert settings == Settings(interval_s=7.0)


def test_an_unknown_option_names_the_known_ones() -> None:
    with pytest.raises(TypeError, match=r"unknown option intervall; known are enabled, mode, .*run_id"):
        Settings.from_options({"intervall": 3}, {})


@given(st.dictionaries(st.sampled_from([PREFIX + name for name in GOOD]), st.text()))
def test_no_environment_raises(environ: dict[str, str]) -> None:
    Settings.from_environment(environ)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("0", 0),
        ("4096", 4096),
        ("2MB", 2_000_000),
        ("2MiB", 2_097_152),
        ("1.5kb", 1_500),
        ("1 GiB", 2**30),
        ("7B", 7),
    ],
)
def test_sizes(text: str, size_bytes: int) -> None:
    assert Settings.from_options({"max_trace_bytes": text}, {}).max_trace_bytes == size_bytes


@pytest.mark.parametrize(
    ("options", "records"),
    [
        ({}, True),
        ({"mode": "trace"}, True),
        ({"mode": "metrics"}, False),
        ({"mode": "off"}, False),
        ({"enabled": False}, False),
    ],
)
def test_what_records_spans(options: dict[str, object], records: bool) -> None:
    assert Settings.from_options(options, {}).records_spans is records


def test_each_schedule_is_fresh() -> None:
    settings = Settings()
    assert settings.make_schedule() is not settings.make_schedule()


def test_options_variables_and_settings_are_the_same_set() -> None:
    options = {field.name for field in fields(Configuration)}
    assert options == {setting.option for setting in SETTINGS}
    variables = {name for name in dir(environment_variables) if name.startswith("OTEL_")}
    assert {getattr(environment_variables, name) for name in variables} == variables  # flags set by name
    assert {setting.variable for setting in SETTINGS} | {PREFIX + "OTLP_FILE"} == variables


def test_every_setting_is_on_the_page_and_no_other() -> None:
    text = PAGE.read_text("utf-8")
    mentioned = set(re.findall(rf"{PREFIX}[A-Z_]*[A-Z]", text))
    assert mentioned == {setting.variable for setting in SETTINGS} | {PREFIX + "OTLP_FILE"}


def test_the_page_gives_the_defaults() -> None:
    rows = dict(re.findall(rf"^\| `{PREFIX}([A-Z_]+)` \| ([^|]+) \|", PAGE.read_text("utf-8"), re.M))
    assert rows.keys() == GOOD.keys()
    for name, cell in rows.items():
        field = GOOD[name][1]
        text = cell.strip().strip("`")
        default = getattr(Settings(), field)
        if default is None or default == ():
            assert not cell.strip().startswith("`")
        else:
            assert getattr(Settings.from_options({name.lower(): text}, {}), field) == default
