// Python values from native ones.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace torchprof::bindings {

template <typename T>
using Column = nanobind::ndarray<nanobind::numpy, const T, nanobind::ndim<1>>;

// A read-only array over memory that `owner` keeps alive.
template <typename T>
Column<T> view(const std::vector<T>& values, nanobind::handle owner) {
  return Column<T>(values.data(), {values.size()}, owner);
}

// A read-only array that takes the values over.
template <typename T>
Column<T> array(std::vector<T>&& values) {
  auto* const owned = new std::vector<T>(std::move(values));
  const nanobind::capsule owner(owned,
                                [](void* pointer) noexcept { delete static_cast<std::vector<T>*>(pointer); });
  return Column<T>(owned->data(), {owned->size()}, owner);
}

// Names are bytes as somebody gave them: what is not UTF-8 becomes U+FFFD.
inline nanobind::str text(std::string_view bytes) {
  return nanobind::steal<nanobind::str>(
      PyUnicode_DecodeUTF8(bytes.data(), static_cast<Py_ssize_t>(bytes.size()), "replace"));
}

inline std::string_view bytes_view(const nanobind::bytes& bytes) { return {bytes.c_str(), bytes.size()}; }

// A path as Python's own functions take it, in the bytes of the file system: they need not be UTF-8. Throws
// Python's TypeError, and its ValueError for a null character, at which the path would be cut off.
inline std::string file_path(nanobind::handle path) {
  PyObject* encoded = nullptr;
  if (PyUnicode_FSConverter(path.ptr(), reinterpret_cast<void*>(&encoded)) == 0) {
    throw nanobind::python_error();
  }
  return std::string(bytes_view(nanobind::steal<nanobind::bytes>(encoded)));
}

}  // namespace torchprof::bindings
