"""The resource of our spans: the provider's, and what makes one rank of one run known.

Ask for it late (at the first export): the name of the program is not known while `sitecustomize` runs.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Protocol

from opentelemetry.sdk.resources import Resource

if TYPE_CHECKING:
    from opentelemetry.proto.common.v1.common_pb2 import AnyValue
    from opentelemetry.trace import TracerProvider

_SERVICE_NAME = "service.name"
_SERVICE_INSTANCE_ID = "service.instance.id"
_RANK = "torch.rank"
_WORLD_SIZE = "torch.world_size"
_UNKNOWN_SERVICE = "unknown_service"
# Arguments carry passwords and data paths; nobody asked for them to be sent.
_NEVER_SENT = frozenset({"process.command_args", "process.command_line"})


class Run(Protocol):
    """What tells the processes of a job, and its restarts, apart; None outside a distributed job."""

    @property
    def run_id(self) -> str: ...
    @property
    def restart(self) -> int: ...
    @property
    def rank(self) -> int | None: ...
    @property
    def world_size(self) -> int | None: ...


def environment_resource(provider: TracerProvider | None) -> Resource | None:
    """What the SDK finds out about this process, where `provider` has no resource; None where it has one.

    To be asked for early: the SDK asks on threads, of which none can start once the interpreter ends.
    """
    return None if isinstance(getattr(provider, "resource", None), Resource) else Resource.create()


def build_resource(
    provider: TracerProvider | None, run: Run, known_before: Resource | None = None
) -> Resource:
    """The resource of `provider`, or of the environment where it has none, with rank and run added.

    `service.instance.id` is replaced: the SDK's is random, ours is the same again after a restart of the job.

    Args:
        provider: may have a resource.
        run: what tells this process from the others of its job.
        known_before: an earlier `environment_resource`, for when the SDK can ask no more.
    """
    base = getattr(provider, "resource", None)
    if not isinstance(base, Resource):
        try:
            base = Resource.create()
        except RuntimeError:
            base = known_before or Resource.get_empty()
    attributes = {key: value for key, value in base.attributes.items() if key not in _NEVER_SENT}
    rank = run.rank or 0
    attributes[_RANK] = rank
    attributes[_WORLD_SIZE] = run.world_size or 1
    attributes[_SERVICE_INSTANCE_ID] = f"{run.run_id}/{rank}/{run.restart}"
    if str(attributes.get(_SERVICE_NAME) or _UNKNOWN_SERVICE).startswith(_UNKNOWN_SERVICE):
        attributes[_SERVICE_NAME] = program_name() or attributes.get(_SERVICE_NAME) or _UNKNOWN_SERVICE
    return Resource(attributes, base.schema_url)


_known_name: str | None = None


def program_name() -> str | None:
    """The name of the script, or of the module after `python -m`; None in an interactive session.

    Once known it is remembered: CPython forgets the script's when its last line has run, before the exit.
    """
    global _known_name
    _known_name = _program_name() or _known_name
    return _known_name


def _program_name() -> str | None:
    main = sys.modules.get("__main__")
    spec = getattr(main, "__spec__", None)
    if spec is not None and spec.name and spec.name != "__main__":
        name: str = spec.name.removesuffix(".__main__")
        return name
    path = getattr(main, "__file__", None)
    return PurePath(path).name if path else None


def serialize_resource(resource: Resource) -> bytes:
    """`resource` as an encoded OTLP `Resource` message."""
    from opentelemetry.proto.resource.v1.resource_pb2 import Resource as ResourceMessage

    message = ResourceMessage()
    for key, value in resource.attributes.items():
        _set_value(message.attributes.add(key=key).value, value)
    encoded: bytes = message.SerializeToString()
    return encoded


def _set_value(target: AnyValue, value: object) -> None:
    if isinstance(value, bool):
        target.bool_value = value
    elif isinstance(value, int) and -(2**63) <= value < 2**63:
        target.int_value = value
    elif isinstance(value, float):
        target.double_value = value
    elif isinstance(value, bytes):
        target.bytes_value = value
    elif isinstance(value, Mapping):
        target.kvlist_value.SetInParent()
        for key, item in value.items():
            _set_value(target.kvlist_value.values.add(key=str(key)).value, item)
    elif isinstance(value, Sequence) and not isinstance(value, str):
        target.array_value.SetInParent()
        for item in value:
            _set_value(target.array_value.values.add(), item)
    elif value is not None:
        # Environment variables may hold bytes that are no UTF-8; Python keeps them as lone surrogates.
        target.string_value = str(value).encode(errors="replace").decode()
