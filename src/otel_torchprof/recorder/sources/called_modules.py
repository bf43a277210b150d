"""What a recording keeps of the modules that were called, as metadata: classes, sizes, parameters."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

# Small enough for a chunk of the recording, whatever the modules are called.
_MODULES_AN_OBJECT = 256
_MAX_PARAMETERS = 64


def describe_modules(called: Sequence[tuple[str, str, str, Any]]) -> Iterator[bytes]:
    """JSON objects `{"modules.N": [...]}` for the metadata of a recording.

    Each module has `root` (the class of the module its path counts from), `path`, `class`, and while it is
    alive `qualified_class`, the number of its parameters with all below it (`parameter_count`, `_bytes`,
    `trainable_count`; a shared parameter counts once), and of its own `parameters` the name, the address of
    the storage, and bytes.

    Args:
        called: root class, path, class and module (None when it is gone).
    """
    modules: dict[tuple[str, str, str], dict[str, Any]] = {}
    for root, path, class_name, module in called:
        described = {"root": root, "path": path, "class": class_name}
        if module is not None:
            described |= _describe(module)
        modules[root, path, class_name] = described
    rows = list(modules.values())
    for number, first in enumerate(range(0, len(rows), _MODULES_AN_OBJECT)):
        value = {f"modules.{number}": rows[first : first + _MODULES_AN_OBJECT]}
        yield json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


def _describe(module: Any) -> dict[str, Any]:
    kind = type(module)
    described: dict[str, Any] = {"qualified_class": f"{kind.__module__}.{kind.__qualname__}"}
    try:
        parameters = list(module.parameters())
        described["parameter_count"] = sum(parameter.numel() for parameter in parameters)
        described["parameter_bytes"] = sum(parameter.nbytes for parameter in parameters)
        described["trainable_count"] = sum(
            parameter.numel() for parameter in parameters if parameter.requires_grad
        )
        own = list(module.named_parameters(recurse=False))[:_MAX_PARAMETERS]
        described["parameters"] = [
            [name, _storage_address(parameter), parameter.nbytes] for name, parameter in own
        ]
    except Exception:
        pass  # lazy parameters have no sizes, and a class may answer as it likes: what is known stays
    return described


def _storage_address(tensor: Any) -> int:
    if hasattr(tensor, "fake_mode"):  # a FakeTensor: asked for an address, torch warns the program
        return 0
    address: int = tensor.untyped_storage().data_ptr()
    return address
