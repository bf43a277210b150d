"""Running code as soon as the program imports torch, without importing it ourselves."""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType

import wrapt

_waiting: list[Callable[[ModuleType], None]] = []


def when_torch_is_imported(call: Callable[[ModuleType], None]) -> Callable[[], None]:
    """Call `call(torch)` once torch is imported, at once when it is.

    Returns:
        A function that cancels the call when it has not happened yet.
    """
    _waiting.append(call)
    # The hook cannot be taken out again, so it is one that finds nothing to do after a cancel.
    wrapt.register_post_import_hook(_call_waiting, "torch")

    def cancel() -> None:
        if call in _waiting:
            _waiting.remove(call)

    return cancel


def _call_waiting(torch: ModuleType) -> None:
    while _waiting:
        _waiting.pop(0)(torch)
