"""Our resource: the provider's, with run and rank, without arguments."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from opentelemetry.exporter.otlp.proto.common.trace_encoder import encode_spans
from opentelemetry.proto.resource.v1.resource_pb2 import Resource as ResourceMessage
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.trace import SpanContext

from otel_torchprof.run_identity import RunIdentity
from otel_torchprof.telemetry import resource as resource_module
from otel_torchprof.telemetry.resource import (
    build_resource,
    environment_resource,
    program_name,
    serialize_resource,
)

IDENTITY = RunIdentity("run7", restart=1, rank=2, world_size=4)


def test_the_providers_resource_is_extended() -> None:
    provider = TracerProvider(
        resource=Resource(
            {"service.name": "trainer", "service.instance.id": "random", "host.name": "n1"},
            "https://schema.test",
        )
    )
    resource = build_resource(provider, IDENTITY)
    assert dict(resource.attributes) == {
        "service.name": "trainer",
        "service.instance.id": "run7/2/1",
        "host.name": "n1",
        "torch.rank": 2,
        "torch.world_size": 4,
    }
    assert resource.schema_url == "https://schema.test"


def test_a_process_that_is_no_rank_is_the_only_one() -> None:
    run = SimpleNamespace(run_id="r", restart=0, rank=None, world_size=None)
    attributes = build_resource(TracerProvider(resource=Resource({})), run).attributes
    assert (attributes["torch.rank"], attributes["torch.world_size"]) == (0, 1)
    assert attributes["service.instance.id"] == "r/0/0"


def test_without_a_provider_the_environment_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_SERVICE_NAME", "from-env")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "team=vision,deployment.environment.name=prod")
    attributes = build_resource(None, IDENTITY).attributes
    assert attributes["service.name"] == "from-env"
    assert attributes["team"] == "vision"
    assert attributes["telemetry.sdk.language"] == "python"
    assert attributes["torch.rank"] == 2


@pytest.mark.parametrize("name", ["", "unknown_service", "unknown_service:python"])
def test_a_missing_service_name_is_the_scripts(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__file__="/home/me/train.py", __spec__=None))
    monkeypatch.setattr(sys, "argv", ["/home/me/train.py", "--password=hunter2"])
    provider = TracerProvider(resource=Resource({"service.name": name}))
    assert build_resource(provider, IDENTITY).attributes["service.name"] == "train.py"


def test_the_name_of_a_script_is_remembered_when_it_has_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_module, "_known_name", None)
    main = SimpleNamespace(__file__="/home/me/train.py", __spec__=None)
    monkeypatch.setitem(sys.modules, "__main__", main)
    assert program_name() == "train.py"
    del main.__file__  # as CPython does before the exit handlers
    assert program_name() == "train.py"


def test_an_interactive_session_keeps_the_sdks_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource_module, "_known_name", None)
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__spec__=None))
    provider = TracerProvider(resource=Resource({"service.name": "unknown_service:python"}))
    assert program_name() is None
    assert build_resource(provider, IDENTITY).attributes["service.name"] == "unknown_service:python"


@pytest.mark.parametrize(
    ("arguments", "name"),
    [
        (["train.py"], "train.py"),
        (["-m", "jobs.train"], "jobs.train"),
        (["-m", "jobs"], "jobs"),
    ],
)
def test_the_name_of_a_real_program(tmp_path: Path, arguments: list[str], name: str) -> None:
    code = "from otel_torchprof.telemetry.resource import program_name\nprint(program_name())\n"
    (tmp_path / "jobs").mkdir()
    for path in ("train.py", "jobs/__init__.py", "jobs/__main__.py", "jobs/train.py"):
        (tmp_path / path).write_text("" if path.endswith("__init__.py") else code)
    done = subprocess.run(
        [sys.executable, *arguments], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == name


def test_arguments_are_never_sent() -> None:
    secret = {
        "process.command_args": ["train.py", "--token=s3cret"],
        "process.command_line": "train.py --token=s3cret",
    }
    resource = build_resource(TracerProvider(resource=Resource(secret)), IDENTITY)
    assert b"s3cret" not in serialize_resource(resource)


def test_the_encoded_resource_is_the_sdks() -> None:
    resource = Resource(
        {
            "text": "Ünïcode",
            "flag": True,
            "count": -7,
            "ratio": 0.5,
            "names": ["a", "b"],
            "numbers": [1, 2],
            "none": [],
        }
    )
    span = ReadableSpan("x", SpanContext(1, 1, False), resource=resource)
    expected = encode_spans([span]).resource_spans[0].resource
    assert ResourceMessage.FromString(serialize_resource(resource)) == expected


def test_values_that_have_no_type_of_their_own_become_text(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = SimpleNamespace(attributes={"huge": 2**70, "surrogate": "a\udcff", "map": {"k": (1, b"z")}})
    message = ResourceMessage.FromString(serialize_resource(resource))  # type: ignore[arg-type]
    values = {item.key: item.value for item in message.attributes}
    assert values["huge"].string_value == str(2**70)
    assert values["surrogate"].string_value == "a?"
    assert values["map"].kvlist_value.values[0].value.array_value.values[1].bytes_value == b"z"


def test_what_was_known_before_serves_when_the_sdk_can_ask_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "team=vision")
    known = environment_resource(None)
    assert known is not None

    def create() -> Resource:
        raise RuntimeError("cannot schedule new futures after interpreter shutdown")

    monkeypatch.setattr(Resource, "create", create)
    assert build_resource(None, RunIdentity("run"), known).attributes["team"] == "vision"
    assert build_resource(None, RunIdentity("run")).attributes["service.instance.id"] == "run/0/0"


def test_a_provider_with_a_resource_is_enough() -> None:
    assert environment_resource(TracerProvider(resource=Resource({"a": "b"}))) is None
