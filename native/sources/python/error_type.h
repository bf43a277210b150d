// What exceptions are called.
#pragma once

#include <Python.h>

#include <string>

namespace torchprof {

// The type of the exception that a block of code ends with, as OpenTelemetry spells it: `ValueError`,
// `torch.OutOfMemoryError`. Empty for none, and for what is no error: all that is no `Exception`, as
// KeyboardInterrupt, GeneratorExit and asyncio's cancellations, and the ends of iterators. `type` is what
// `__exit__` is told first. Needs the GIL; leaves no Python exception.
[[nodiscard]] std::string error_type(PyObject* type) noexcept;

}  // namespace torchprof
