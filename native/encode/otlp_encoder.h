// A SpanPlan as OTLP: serialized ExportTraceServiceRequest messages, each small enough to be accepted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "spans/plan.h"

namespace torchprof {

struct OtlpOptions {
  std::string_view resource;  // a serialized opentelemetry.proto.resource.v1.Resource
  std::string_view scope_name;
  std::string_view scope_version;
  std::string_view schema_url;                // of the scope and its spans; "" = none
  std::size_t max_request_bytes = 3'670'016;  // 3.5 MiB, below the 4 MiB that gRPC servers take
  std::size_t max_request_spans = 8192;
};

struct OtlpRequest {
  std::string payload;
  std::uint32_t spans = 0;
  std::uint32_t stripped_spans = 0;  // of these, too large for any request: sent without attributes
};

// None for a plan without spans.
[[nodiscard]] std::vector<OtlpRequest> encode_otlp(const SpanPlan& plan, const OtlpOptions& options);

}  // namespace torchprof
