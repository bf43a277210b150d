// A SpanPlan as OTLP: serialized ExportTraceServiceRequest messages, each small enough to be accepted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

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

// The requests of a plan, each encoded when it is asked for: memory holds one of them, however many there
// are.
class OtlpRequestStream {
 public:
  // The plan must outlive the stream; the options are copied.
  OtlpRequestStream(const SpanPlan& plan, const OtlpOptions& options);
  ~OtlpRequestStream();
  OtlpRequestStream(OtlpRequestStream&&) noexcept;
  OtlpRequestStream& operator=(OtlpRequestStream&&) noexcept;

  // The next request; none for a plan without spans, and at the end.
  [[nodiscard]] std::optional<OtlpRequest> next();

 private:
  class Encoder;
  std::unique_ptr<Encoder> encoder_;
};

}  // namespace torchprof
