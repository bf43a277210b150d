"""`span`: a scope that the program marks, at a fraction of what `record_function` costs."""

from __future__ import annotations

from types import ModuleType
from typing import Any

import wrapt

from otel_torchprof._native import core
from otel_torchprof._native.core import span
from otel_torchprof.recorder.failures import failures
from otel_torchprof.recorder.span_functions import run_in_spans

__all__ = ["span"]

core.set_span_decorator(run_in_spans)


class _TracedSpan:
    """What torch.compile sees of a span: nothing, so that it breaks no graph and guards nothing."""

    def __enter__(self) -> _TracedSpan:
        return self

    def __exit__(self, *exception: object) -> None:
        pass

    def __call__(self, function: Any) -> Any:
        return function


def _traced_span(name: str, /) -> _TracedSpan:
    return _TracedSpan()


def _teach(_dynamo: ModuleType) -> None:
    with failures.guard("torch.compile does not know span"):
        import torch

        substitute_in_graph = getattr(torch.compiler, "substitute_in_graph", None)
        if substitute_in_graph is not None:  # torch 2.5 and later
            substitute_in_graph(span)(_traced_span)


# Loading the compiler takes a second, and few programs with spans compile.
wrapt.register_post_import_hook(_teach, "torch._dynamo")
