// What the kinds of events mean to the span plan.
#pragma once

#include <cstdint>
#include <iterator>
#include <string_view>

#include "core/layout.h"

namespace torchprof {

// Occupies a device: what device time is the sum of.
[[nodiscard]] constexpr bool is_device_work(EventKind kind) noexcept {
  return kind == EventKind::kKernel || kind == EventKind::kMemcpy || kind == EventKind::kMemset;
}

// A call into the CUDA runtime or driver.
[[nodiscard]] constexpr bool is_runtime_call(EventKind kind) noexcept {
  return kind == EventKind::kRuntime || kind == EventKind::kDriver;
}

[[nodiscard]] constexpr std::string_view kind_name(EventKind kind) noexcept {
  switch (kind) {
    case EventKind::kOp:
      return "op";
    case EventKind::kUser:
      return "user";
    case EventKind::kRuntime:
      return "runtime";
    case EventKind::kDriver:
      return "driver";
    case EventKind::kKernel:
      return "kernel";
    case EventKind::kMemcpy:
      return "memcpy";
    case EventKind::kMemset:
      return "memset";
    case EventKind::kSync:
      return "sync";
    case EventKind::kPython:
      return "python";
    case EventKind::kPythonC:
      return "python_c";
    case EventKind::kModule:
      return "module";
    case EventKind::kOverhead:
      return "overhead";
    case EventKind::kSpan:
      return "span";
    case EventKind::kAnnotation:
      return "annotation";
    case EventKind::kOther:
      return "other";
  }
  return "other";
}

[[nodiscard]] constexpr std::string_view phase_name(StepPhase phase) noexcept {
  switch (phase) {
    case StepPhase::kTrain:
      return "train";
    case StepPhase::kEval:
      return "eval";
    case StepPhase::kInfer:
      return "infer";
    case StepPhase::kUnknown:
      return "unknown";
  }
  return "unknown";
}

// at::RecordScope by value, as TorchScript and the profiler spell it in lower case.
[[nodiscard]] constexpr std::string_view scope_name(std::uint8_t scope) noexcept {
  constexpr std::string_view kNames[] = {
      "function",          "backward_function",   "torchscript_function", "kernel_function_dtype",
      "custom_class",      "build_feature",       "lite_interpreter",     "user_scope",
      "static_runtime_op", "static_runtime_model"};
  return scope < std::size(kNames) ? kNames[scope] : "unknown";
}

}  // namespace torchprof
