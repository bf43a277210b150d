// What Python's `span(name)` returns: a user scope to enter and leave.
#pragma once

#include <nanobind/nanobind.h>

namespace torchprof {

// Adds the type `Span` and the function `span` to a module. They are Python's own kinds, without a binding
// library between: what marks a scope must cost next to nothing while nobody records. `decorate(function,
// name)` makes the decorated function. Throws nanobind::python_error.
void add_span(nanobind::module_& module);

// Sets what decorates, once.
void set_span_decorator(nanobind::object decorate) noexcept;

// Sets who is told, without arguments, of every scope that has begun; None = nobody. What it raises is
// dropped.
void set_span_observer(nanobind::object function) noexcept;

}  // namespace torchprof
