// The least that watching Python calls costs: a profile function that does nothing. An anchor of
// benchmarks/python_frames.py, called under the GIL.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

namespace {

int do_nothing(PyObject*, PyFrameObject*, int, PyObject*) { return 0; }

}  // namespace

extern "C" __attribute__((visibility("default"))) void empty_profile_hook_enable() {
  PyEval_SetProfile(do_nothing, nullptr);
}

extern "C" __attribute__((visibility("default"))) void empty_profile_hook_disable() {
  PyEval_SetProfile(nullptr, nullptr);
}
