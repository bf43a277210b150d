#include "sources/python/error_type.h"

#include <nanobind/nanobind.h>

#include <string_view>

namespace torchprof {
namespace {

namespace nb = nanobind;

bool is_error(PyTypeObject* type) noexcept {
  const auto is_a = [type](PyObject* base) {
    return PyType_IsSubtype(type, reinterpret_cast<PyTypeObject*>(base)) != 0;
  };
  return is_a(PyExc_Exception) && !is_a(PyExc_StopIteration) && !is_a(PyExc_StopAsyncIteration);
}

// Empty where there is no such text.
std::string text_of(PyObject* type, const char* attribute) {
  const nb::object text = nb::steal(PyObject_GetAttrString(type, attribute));
  const char* const characters =
      text.is_valid() && PyUnicode_Check(text.ptr()) ? PyUnicode_AsUTF8(text.ptr()) : nullptr;
  PyErr_Clear();
  return characters != nullptr ? characters : "";
}

}  // namespace

std::string error_type(PyObject* type) noexcept {
  try {
    if (PyType_Check(type) == 0 || !is_error(reinterpret_cast<PyTypeObject*>(type))) return {};
    const std::string module = text_of(type, "__module__");
    std::string name = text_of(type, "__qualname__");
    if (name.empty()) name = reinterpret_cast<PyTypeObject*>(type)->tp_name;
    return module.empty() || module == "builtins" ? name : module + "." + name;
  } catch (...) {
    return {};  // no memory
  }
}

}  // namespace torchprof
