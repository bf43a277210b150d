#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "encode/otlp_encoder.h"
#include "encode/protobuf_writer.h"
#include "span_fixtures.h"

using namespace torchprof;
using namespace torchprof::testing;

namespace {

// Just enough of a reader to look into what was written.
struct Field {
  std::uint32_t number = 0;
  std::string_view content;  // of length-delimited fields
};

std::uint64_t read_varint(std::string_view& bytes) {
  std::uint64_t value = 0;
  for (unsigned shift = 0;; shift += 7) {
    REQUIRE(!bytes.empty());
    const auto byte = static_cast<std::uint8_t>(bytes.front());
    bytes.remove_prefix(1);
    value |= static_cast<std::uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
}

std::vector<Field> read_fields(std::string_view bytes) {
  std::vector<Field> fields;
  while (!bytes.empty()) {
    const std::uint64_t tag = read_varint(bytes);
    Field field{static_cast<std::uint32_t>(tag >> 3), {}};
    std::size_t size = 0;
    switch (tag & 7) {
      case 0:
        read_varint(bytes);
        break;
      case 1:
        size = 8;
        break;
      case 2:
        size = read_varint(bytes);
        break;
      case 5:
        size = 4;
        break;
      default:
        FAIL("unknown wire type");
    }
    REQUIRE(size <= bytes.size());
    field.content = bytes.substr(0, size);
    bytes.remove_prefix(size);
    fields.push_back(field);
  }
  return fields;
}

std::string_view only(std::string_view message, std::uint32_t number) {
  std::string_view found;
  int count = 0;
  for (const Field& field : read_fields(message)) {
    if (field.number != number) continue;
    found = field.content;
    ++count;
  }
  REQUIRE(count == 1);
  return found;
}

std::size_t count_spans(std::string_view request) {
  std::size_t spans = 0;
  for (const Field& field : read_fields(only(only(request, 1), 2))) spans += field.number == 2 ? 1 : 0;
  return spans;
}

Recording flat_recording(int ops) {
  Scene scene;
  scene.step(0, 10 * ops, 0);
  for (int i = 0; i < ops; ++i) scene.event("aten::relu", 10 * i, 10 * i + 5);
  return scene.builder.finish();
}

}  // namespace

TEST_CASE("the length of a message is patched in, whatever room was kept for it") {
  for (const std::size_t content_bytes : {0, 1, 125, 126, 127, 128, 16'380, 16'384, 2'100'000}) {
    for (const std::size_t kept_bytes : {1, 2, 5}) {
      ProtobufWriter out;
      out.varint_field(3, 300);
      const auto outer = out.begin_message(1, kept_bytes);
      const auto inner = out.begin_message(2, kept_bytes);
      const std::string content(content_bytes, '\0');
      out.write(content_bytes, [&](ProtobufCursor& cursor) { cursor.bytes(content); });
      out.end_message(inner);
      out.end_message(outer);
      out.fixed32_field(16, 1);

      CAPTURE(content_bytes);
      CAPTURE(kept_bytes);
      const std::size_t inner_bytes = ProtobufWriter::field_bytes(2, content_bytes);
      CHECK(out.size() == 3 + ProtobufWriter::field_bytes(1, inner_bytes) + 6);
      std::string_view bytes = out.view();
      CHECK(read_varint(bytes) == (3 << 3));
      CHECK(read_varint(bytes) == 300);
      CHECK(read_varint(bytes) == (1 << 3 | 2));
      CHECK(read_varint(bytes) == inner_bytes);
      CHECK(read_varint(bytes) == (2 << 3 | 2));
      CHECK(read_varint(bytes) == content_bytes);
      bytes.remove_prefix(content_bytes);
      CHECK(read_varint(bytes) == (16 << 3 | 5));
    }
  }
}

TEST_CASE("requests keep to their number of spans and repeat resource and scope") {
  const Recording recording = flat_recording(24);
  const SpanPlan plan = plan_of(recording);
  OtlpOptions options;
  options.resource = "resource";
  options.scope_name = "scope";
  options.scope_version = "1";
  options.schema_url = "url";
  options.max_request_spans = 10;
  const std::vector<OtlpRequest> requests = all_requests(plan, options);
  REQUIRE(requests.size() == 3);
  std::vector<std::uint32_t> spans;
  for (const OtlpRequest& request : requests) {
    spans.push_back(request.spans);
    CHECK(count_spans(request.payload) == request.spans);
    const std::string_view resource_spans = only(request.payload, 1);
    CHECK(only(resource_spans, 1) == "resource");
    CHECK(only(resource_spans, 3) == "url");
    const std::string_view scope_spans = only(resource_spans, 2);
    CHECK(only(only(scope_spans, 1), 1) == "scope");
    CHECK(only(only(scope_spans, 1), 2) == "1");
    CHECK(only(scope_spans, 3) == "url");
  }
  CHECK(spans == std::vector<std::uint32_t>{10, 10, 5});
}

TEST_CASE("requests keep to their bytes") {
  const Recording recording = flat_recording(200);
  const SpanPlan plan = plan_of(recording);
  OtlpOptions options;
  options.resource = "resource";
  options.max_request_bytes = 2'000;
  const std::vector<OtlpRequest> requests = all_requests(plan, options);
  CHECK(requests.size() < plan.spans.size() / 8);
  std::size_t spans = 0;
  for (const OtlpRequest& request : requests) {
    CHECK(request.payload.size() <= 2'000);
    CHECK(request.stripped_spans == 0);
    CHECK(count_spans(request.payload) == request.spans);
    spans += request.spans;
  }
  CHECK(spans == plan.spans.size());
}

TEST_CASE("a span too large for any request goes without attributes, then without links") {
  Scene scene;
  scene.step(0, 100, 0);
  scene.event("op", 10, 20);
  const Recording recording = scene.builder.finish();
  std::vector<SpanRoot> roots = roots_of(recording);
  roots[0].links.assign(40, {{{7, 7}, 7}, LinkKind::kRequest});
  const SpanPlan plan = plan_of(recording, {}, roots);

  OtlpOptions options;
  options.max_request_bytes = 300;
  options.max_request_spans = 1;
  const std::vector<OtlpRequest> requests = all_requests(plan, options);
  REQUIRE(requests.size() == 2);
  CHECK(requests[0].stripped_spans == 1);
  CHECK(requests[0].payload.size() <= 300);
  CHECK(requests[1].stripped_spans == 0);
  const std::string_view step = only(only(only(requests[0].payload, 1), 2), 2);
  std::size_t attributes = 0;
  std::size_t links = 0;
  std::size_t counts = 0;
  for (const Field& field : read_fields(step)) {
    attributes += field.number == 9 ? 1 : 0;
    links += field.number == 13 ? 1 : 0;
    counts += field.number == 10 || field.number == 14 ? 1 : 0;
  }
  CHECK(attributes == 0);
  CHECK(links == 0);
  CHECK(counts == 2);
}

TEST_CASE("a plan without spans makes no request") {
  const Recording recording = flat_recording(1);
  std::vector<SpanRoot> roots = roots_of(recording);
  roots[0].trace_flags = 0;
  const SpanPlan plan = plan_of(recording, {}, roots);
  CHECK(all_requests(plan, {}).empty());
}

TEST_CASE("a stream at its end stays there, and copies its options") {
  const Recording recording = flat_recording(3);
  const SpanPlan plan = plan_of(recording);
  std::string resource = "resource";
  OtlpOptions options;
  options.resource = resource;
  OtlpRequestStream stream(plan, options);
  resource.assign("overwritten");
  const std::optional<OtlpRequest> request = stream.next();
  if (!request.has_value()) {
    FAIL("there is no request");
    return;
  }
  CHECK(request->spans == plan.spans.size());
  CHECK(only(only(request->payload, 1), 1) == "resource");
  CHECK_FALSE(stream.next().has_value());
  CHECK_FALSE(stream.next().has_value());
}
