#include "sources/op_ranges/python_listener.h"

#include <string>
#include <utility>

#include "core/op_listener.h"
#include "core/range_text.h"
#include "core/registry.h"
#include "sources/python/gil.h"

namespace torchprof {
namespace {

namespace nb = nanobind;

class PythonListener final : public OpListener {
 public:
  void started(const torchprof_op_start& op) noexcept override {
    try {
      const std::string text = range_text(op);
      const TryWithGil with_gil;
      if (!with_gil) return;
      const nb::error_scope not_ours;  // an exception may be on its way
      call(begin_, nb::steal(PyLong_FromVoidPtr(const_cast<void*>(op.key))),
           nb::steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace")));
    } catch (...) {
      return;  // no memory
    }
  }
  void ended(const void* key) noexcept override {
    const TryWithGil with_gil;
    if (!with_gil) return;
    const nb::error_scope not_ours;
    call(end_, nb::steal(PyLong_FromVoidPtr(const_cast<void*>(key))), nb::object());
  }

  // Under the GIL.
  [[nodiscard]] bool is_set() const noexcept { return begin_.is_valid(); }
  void set(nb::object begin, nb::object end) noexcept {
    begin_ = std::move(begin);
    end_ = std::move(end);
  }

 private:
  static void call(const nb::object& function, const nb::object& key, const nb::object& text) noexcept {
    if (!function.is_valid() || !key.is_valid()) return;
    const auto kept = nb::borrow(function);  // it may be set anew while the call runs
    const nb::object result =
        nb::steal(PyObject_CallFunctionObjArgs(kept.ptr(), key.ptr(), text.ptr(), nullptr));
    if (!result.is_valid()) PyErr_Clear();
  }

  nb::object begin_;
  nb::object end_;
};

// One for all, never destroyed.
PythonListener& the_listener() {
  static auto* const listener = new PythonListener;
  return *listener;
}

}  // namespace

int start_op_ranges(nb::object begin, nb::object end) {
  PythonListener& listener = the_listener();
  if (listener.is_set()) return -1;
  const int slot = Registry::instance().listen(listener);
  if (slot >= 0) listener.set(std::move(begin), std::move(end));
  return slot;
}

void stop_op_ranges(std::uint32_t slot) {
  if (slot >= kSlots) return;
  Registry::instance().stop_listening(slot);
  the_listener().set({}, {});
}

void forget_op_ranges() { the_listener().set({}, {}); }

}  // namespace torchprof
