#include <nanobind/nanobind.h>

#include "sources/python/gil.h"

namespace nb = nanobind;

void bind_capture(nb::module_& m);
void bind_chrome(nb::module_& m);
void bind_counters(nb::module_& m);
void bind_device(nb::module_& m);
void bind_memory(nb::module_& m);
void bind_modules(nb::module_& m);
void bind_op_counts(nb::module_& m);
void bind_op_ranges(nb::module_& m);
void bind_pickle(nb::module_& m);
void bind_python_frames(nb::module_& m);
void bind_recording(nb::module_& m);
void bind_redaction(nb::module_& m);
void bind_side_tables(nb::module_& m);
void bind_spans(nb::module_& m);
void bind_tensor_roles(nb::module_& m);
void bind_trace_json(nb::module_& m);
void bind_user_scopes(nb::module_& m);

NB_MODULE(core, m) {
  m.doc() = "Native core of otel-torchprof: recorder, recordings, span encoding.";
  // What still records when the interpreter exits is alive on purpose; the program's stderr is not ours.
  nb::set_leak_warnings(false);
  torchprof::prepare_for_interpreter_end();
  // Recording first: the others name its type in their signatures.
  bind_recording(m);
  bind_side_tables(m);
  bind_redaction(m);
  bind_memory(m);
  bind_capture(m);
  bind_counters(m);
  bind_device(m);
  bind_modules(m);
  bind_op_counts(m);
  bind_op_ranges(m);
  bind_python_frames(m);
  bind_user_scopes(m);
  bind_spans(m);
  bind_chrome(m);
  bind_trace_json(m);
  bind_pickle(m);
  bind_tensor_roles(m);
}
