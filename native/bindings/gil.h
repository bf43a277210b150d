// Native work without the GIL, and the way back to it.
//
// While the interpreter ends it ends every other thread that asks for the GIL by unwinding its stack (until
// Python 3.14), which aborts the whole process in the midst of C++. So from its last exit handler on such a
// thread asks no more, and stays where it is: as all of them do from 3.14 on.
#pragma once

#include <Python.h>

namespace torchprof::bindings {

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

}  // namespace torchprof::bindings
