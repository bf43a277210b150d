// How large a span gets on the wire, without encoding it: what the byte budget of a trace is held to.
#pragma once

#include <cstddef>

#include "spans/plan.h"

namespace torchprof {

// At least as many bytes as the encoder will write for the span.
[[nodiscard]] std::size_t max_encoded_bytes(const SpanPlan& plan, std::size_t index);

// Fills in TraceStats::size_bytes.
void measure_traces(SpanPlan& plan);

}  // namespace torchprof
