// Native work without the GIL, and the way back to it.
//
// While the interpreter ends it ends every other thread that asks for the GIL by unwinding its stack (until
// Python 3.14), which aborts the whole process in the midst of C++. So from its last exit handler on such a
// thread asks no more, and stays where it is: as all of them do from 3.14 on.
#pragma once

#include <Python.h>

namespace torchprof {

class WithoutGil {
 public:
  WithoutGil() noexcept;
  ~WithoutGil();
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;

 private:
  PyThreadState* state_;
};

// Inside of that, for a call into Python.
class WithGil {
 public:
  WithGil() noexcept;
  ~WithGil();
  WithGil(const WithGil&) = delete;
  WithGil& operator=(const WithGil&) = delete;

 private:
  PyGILState_STATE state_;
};

// On any thread, for a call into Python that may be left out: false, and without the GIL, once the
// interpreter ends. A thread that others wait for at the end, as they do for torch's, must not be held.
class TryWithGil {
 public:
  TryWithGil() noexcept;
  ~TryWithGil();
  TryWithGil(const TryWithGil&) = delete;
  TryWithGil& operator=(const TryWithGil&) = delete;
  [[nodiscard]] explicit operator bool() const noexcept { return has_gil_; }

 private:
  bool has_gil_;
  PyGILState_STATE state_{};
};

// Registers what holds the other threads as the interpreter ends. To be called once, as early as can be: what
// is registered first runs last. Throws nanobind::python_error.
void prepare_for_interpreter_end();

}  // namespace torchprof
