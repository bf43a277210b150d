"""One model behind WSGI and behind ASGI; each answer says who gave it, and in which trace."""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import torch
from opentelemetry import trace

from tests.support.served_models import Repeated

model = Repeated().eval()
tracer = trace.get_tracer("server")


def answer(query: str) -> bytes:
    """What the model runs depends on the query, `times=N`."""
    with tracer.start_as_current_span("request") as request, torch.inference_mode():
        model(int(query.removeprefix("times=")))
        trace_id = trace.format_trace_id(request.get_span_context().trace_id)
    return json.dumps({"process": os.getpid(), "trace_id": trace_id}).encode()


def wsgi(
    environ: dict[str, Any], start_response: Callable[[str, list[tuple[str, str]]], object]
) -> Iterable[bytes]:
    """For sync workers."""
    body = answer(environ["QUERY_STRING"])
    start_response("200 OK", [("content-length", str(len(body)))])
    return [body]


async def asgi(
    scope: dict[str, Any],
    receive: Callable[[], Awaitable[dict[str, Any]]],
    send: Callable[[dict[str, Any]], Awaitable[None]],
) -> None:
    """For uvicorn's."""
    if scope["type"] == "lifespan":
        for event in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{event}.complete"})
        return
    body = answer(scope["query_string"].decode())
    headers = [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": body})
