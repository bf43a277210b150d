#include "encode/otlp_encoder.h"

#include <algorithm>
#include <cstring>
#include <span>

#include "encode/protobuf_writer.h"
#include "spans/attributes.h"

namespace torchprof {
namespace {

// Field numbers of opentelemetry/proto/{collector/trace/v1,trace/v1,common/v1}.
namespace field {
constexpr std::uint32_t kRequestResourceSpans = 1;
constexpr std::uint32_t kResourceSpansResource = 1;
constexpr std::uint32_t kResourceSpansScopeSpans = 2;
constexpr std::uint32_t kResourceSpansSchemaUrl = 3;
constexpr std::uint32_t kScopeSpansScope = 1;
constexpr std::uint32_t kScopeSpansSpans = 2;
constexpr std::uint32_t kScopeSpansSchemaUrl = 3;
constexpr std::uint32_t kScopeName = 1;
constexpr std::uint32_t kScopeVersion = 2;
constexpr std::uint32_t kSpanTraceId = 1;
constexpr std::uint32_t kSpanSpanId = 2;
constexpr std::uint32_t kSpanParentSpanId = 4;
constexpr std::uint32_t kSpanName = 5;
constexpr std::uint32_t kSpanKind = 6;
constexpr std::uint32_t kSpanStartTime = 7;
constexpr std::uint32_t kSpanEndTime = 8;
constexpr std::uint32_t kSpanAttributes = 9;
constexpr std::uint32_t kSpanDroppedAttributes = 10;
constexpr std::uint32_t kSpanEvents = 11;
constexpr std::uint32_t kSpanDroppedEvents = 12;
constexpr std::uint32_t kSpanLinks = 13;
constexpr std::uint32_t kSpanDroppedLinks = 14;
constexpr std::uint32_t kSpanStatus = 15;
constexpr std::uint32_t kStatusMessage = 2;
constexpr std::uint32_t kStatusCode = 3;
constexpr std::uint32_t kSpanFlags = 16;
constexpr std::uint32_t kEventTime = 1;
constexpr std::uint32_t kEventName = 2;
constexpr std::uint32_t kEventAttributes = 3;
constexpr std::uint32_t kLinkTraceId = 1;
constexpr std::uint32_t kLinkSpanId = 2;
constexpr std::uint32_t kLinkAttributes = 4;
constexpr std::uint32_t kKeyValueKey = 1;
constexpr std::uint32_t kKeyValueValue = 2;
constexpr std::uint32_t kAnyValueString = 1;
constexpr std::uint32_t kAnyValueBool = 2;
constexpr std::uint32_t kAnyValueInt = 3;
constexpr std::uint32_t kAnyValueArray = 5;
constexpr std::uint32_t kArrayValueValues = 1;
}  // namespace field

constexpr std::uint64_t kSpanKindInternal = 1;
constexpr std::uint64_t kStatusCodeError = 2;

// An id as the bytes of a protobuf field.
class IdBytes {
 public:
  explicit IdBytes(SpanId id) : size_(8) { write_big_endian(id, bytes_); }
  explicit IdBytes(TraceId id) : size_(16) {
    write_big_endian(id.high, bytes_);
    write_big_endian(id.low, bytes_ + 8);
  }
  [[nodiscard]] std::string_view view() const noexcept {
    return {reinterpret_cast<const char*>(bytes_), size_};
  }

 private:
  std::uint8_t bytes_[16] = {};
  std::size_t size_;
};

// Writes attributes as KeyValue messages of the given field.
template <std::uint32_t AttributesField>
class AttributeWriter {
 public:
  explicit AttributeWriter(ProtobufWriter& out) : out_(out) {}

  void text(std::string_view name, std::string_view value) {
    write(name, ProtobufWriter::field_bytes(field::kAnyValueString, value.size()),
          [&](ProtobufCursor& cursor) { cursor.bytes_field(field::kAnyValueString, value); });
  }

  void integer(std::string_view name, std::int64_t value) {
    const auto bits = static_cast<std::uint64_t>(value);
    write(name, 1 + ProtobufWriter::varint_bytes(bits),
          [&](ProtobufCursor& cursor) { cursor.varint_field(field::kAnyValueInt, bits); });
  }

  void flag(std::string_view name, bool value) {
    write(name, 2, [&](ProtobufCursor& cursor) { cursor.varint_field(field::kAnyValueBool, value ? 1 : 0); });
  }

  void texts(std::string_view name, std::span<const std::string_view> values) {
    array(name, values, [this](std::string_view value) { out_.bytes_field(field::kAnyValueString, value); });
  }

  void integers(std::string_view name, std::span<const std::int64_t> values) {
    array(name, values, [this](std::int64_t value) {
      out_.varint_field(field::kAnyValueInt, static_cast<std::uint64_t>(value));
    });
  }

 private:
  // All lengths are known: nothing to patch.
  template <class WriteValue>
  void write(std::string_view name, std::size_t value_bytes, WriteValue write_value) {
    const std::size_t content_bytes = ProtobufWriter::field_bytes(field::kKeyValueKey, name.size()) +
                                      ProtobufWriter::field_bytes(field::kKeyValueValue, value_bytes);
    out_.write(ProtobufWriter::kMaxHeaderBytes + content_bytes, [&](ProtobufCursor& cursor) {
      cursor.header(AttributesField, content_bytes);
      cursor.bytes_field(field::kKeyValueKey, name);
      cursor.header(field::kKeyValueValue, value_bytes);
      write_value(cursor);
    });
  }

  template <class Value, class Write>
  void array(std::string_view name, std::span<const Value> values, Write write_value) {
    const auto attribute = out_.begin_message(AttributesField, 2);
    out_.bytes_field(field::kKeyValueKey, name);
    const auto any_value = out_.begin_message(field::kKeyValueValue, 2);
    const auto array_value = out_.begin_message(field::kAnyValueArray, 2);
    for (const Value& value : values) {
      const auto item = out_.begin_message(field::kArrayValueValues, 1);
      write_value(value);
      out_.end_message(item);
    }
    out_.end_message(array_value);
    out_.end_message(any_value);
    out_.end_message(attribute);
  }

  ProtobufWriter& out_;
};

struct AttributeCounter {
  std::uint32_t attributes = 0;
  void text(std::string_view /*name*/, std::string_view /*value*/) { ++attributes; }
  void integer(std::string_view /*name*/, std::int64_t /*value*/) { ++attributes; }
  void flag(std::string_view /*name*/, bool /*value*/) { ++attributes; }
  void texts(std::string_view /*name*/, std::span<const std::string_view> /*values*/) { ++attributes; }
  void integers(std::string_view /*name*/, std::span<const std::int64_t> /*values*/) { ++attributes; }
};

enum class SpanParts { kAll, kNoAttributes, kNoAttributesNoLinks };

}  // namespace

class OtlpRequestStream::Encoder {
 public:
  Encoder(const SpanPlan& plan, const OtlpOptions& options)
      : plan_(plan),
        resource_(options.resource),
        schema_url_(options.schema_url),
        max_request_bytes_(options.max_request_bytes),
        max_request_spans_(options.max_request_spans) {
    scope_.bytes_field_unless_empty(field::kScopeName, options.scope_name);
    scope_.bytes_field_unless_empty(field::kScopeVersion, options.scope_version);
    const std::size_t schema_bytes =
        ProtobufWriter::field_bytes(field::kScopeSpansSchemaUrl, options.schema_url.size());
    // Three nested headers of at most six bytes, and the two schema URLs.
    overhead_bytes_ = ProtobufWriter::field_bytes(field::kResourceSpansResource, options.resource.size()) +
                      ProtobufWriter::field_bytes(field::kScopeSpansScope, scope_.size()) + 2 * schema_bytes +
                      3 * 6;
  }

  std::optional<OtlpRequest> next() {
    std::optional<OtlpRequest> full;
    while (!full && next_span_ < plan_.sent.size()) {
      const std::size_t begin = spans_.size();
      bool is_stripped = false;
      const std::uint32_t index = plan_.sent[next_span_];
      write_span(index, SpanParts::kAll);
      if (overhead_bytes_ + spans_.size() - begin > max_request_bytes_) {
        spans_.truncate(begin);
        write_stripped(index);
        is_stripped = true;
      }
      const bool too_large = overhead_bytes_ + spans_.size() > max_request_bytes_;
      if (count_ != 0 && (too_large || count_ == max_request_spans_)) full = finish_request(begin);
      ++next_span_;
      ++count_;
      stripped_ += is_stripped ? 1 : 0;
    }
    if (!full && count_ != 0) return finish_request(spans_.size());
    return full;
  }

 private:
  void write_stripped(std::size_t index) {
    const std::size_t begin = spans_.size();
    write_span(index, SpanParts::kNoAttributes);
    if (overhead_bytes_ + spans_.size() - begin > max_request_bytes_) {
      spans_.truncate(begin);
      write_span(index, SpanParts::kNoAttributesNoLinks);
    }
  }

  void write_span(std::size_t index, SpanParts parts) {
    const PlannedSpan& span = plan_.spans[index];
    const SpanRoot& root = plan_.roots[span.root];
    const auto message = spans_.begin_message(field::kScopeSpansSpans, 2);
    spans_.bytes_field(field::kSpanTraceId, IdBytes(root.self.trace).view());
    spans_.bytes_field(field::kSpanSpanId, IdBytes(span.id).view());
    if (const SpanId parent = plan_.parent_id(span); parent != 0) {
      spans_.bytes_field(field::kSpanParentSpanId, IdBytes(parent).view());
    }
    spans_.bytes_field(field::kSpanName, plan_.names[span.name].text);
    spans_.varint_field(field::kSpanKind, kSpanKindInternal);
    write_time(field::kSpanStartTime, span.start_ns);
    write_time(field::kSpanEndTime, span.end_ns);

    if (parts == SpanParts::kAll) {
      AttributeWriter<field::kSpanAttributes> attributes(spans_);
      visit_attributes(plan_, index, attributes);
    } else {
      AttributeCounter dropped;
      visit_attributes(plan_, index, dropped);
      spans_.varint_field(field::kSpanDroppedAttributes, dropped.attributes);
    }

    const std::vector<SpanEvent>& events = plan_.events(span);
    if (parts == SpanParts::kAll) {
      for (const SpanEvent& event : events) write_event(event);
    } else if (!events.empty()) {
      spans_.varint_field(field::kSpanDroppedEvents, events.size());
    }

    std::uint32_t dropped_links = span.dropped_links;
    if (parts == SpanParts::kNoAttributesNoLinks) {
      dropped_links += span.links_count;
    } else {
      for (std::uint32_t i = 0; i < span.links_count; ++i) write_link(plan_.links[span.links_begin + i]);
    }
    if (dropped_links != 0) spans_.varint_field(field::kSpanDroppedLinks, dropped_links);
    if (const std::string_view error = plan_.error(span); !error.empty()) write_status(error);
    if (root.trace_flags != 0) spans_.fixed32_field(field::kSpanFlags, root.trace_flags);
    spans_.end_message(message);
  }

  void write_time(std::uint32_t field, std::int64_t time_ns) {
    // proto3 writes no zero.
    if (time_ns != 0) spans_.fixed64_field(field, static_cast<std::uint64_t>(time_ns));
  }

  void write_status(std::string_view error) {
    const auto message = spans_.begin_message(field::kSpanStatus, 1);
    spans_.bytes_field(field::kStatusMessage, error);
    spans_.varint_field(field::kStatusCode, kStatusCodeError);
    spans_.end_message(message);
  }

  void write_event(const SpanEvent& event) {
    const auto message = spans_.begin_message(field::kSpanEvents, 2);
    write_time(field::kEventTime, event.time_ns);
    spans_.bytes_field(field::kEventName, event.name);
    AttributeWriter<field::kEventAttributes> attributes(spans_);
    visit_event_attributes(event, attributes);
    spans_.end_message(message);
  }

  void write_link(const SpanLink& link) {
    const auto message = spans_.begin_message(field::kSpanLinks, 1);
    spans_.bytes_field(field::kLinkTraceId, IdBytes(link.target.trace).view());
    spans_.bytes_field(field::kLinkSpanId, IdBytes(link.target.span).view());
    AttributeWriter<field::kLinkAttributes> attributes(spans_);
    visit_link_attributes(link, attributes);
    spans_.end_message(message);
  }

  // Makes a request of the spans before `end`; what follows stays for the next one.
  OtlpRequest finish_request(std::size_t end) {
    const auto optional_bytes = [](std::uint32_t number, std::string_view value) {
      return value.empty() ? 0 : ProtobufWriter::field_bytes(number, value.size());
    };
    const std::size_t scope_spans_bytes =
        ProtobufWriter::field_bytes(field::kScopeSpansScope, scope_.size()) + end +
        optional_bytes(field::kScopeSpansSchemaUrl, schema_url_);
    const std::size_t resource_spans_bytes =
        ProtobufWriter::field_bytes(field::kResourceSpansResource, resource_.size()) +
        ProtobufWriter::field_bytes(field::kResourceSpansScopeSpans, scope_spans_bytes) +
        optional_bytes(field::kResourceSpansSchemaUrl, schema_url_);

    ProtobufWriter head;
    head.header(field::kRequestResourceSpans, resource_spans_bytes);
    head.bytes_field(field::kResourceSpansResource, resource_);
    head.header(field::kResourceSpansScopeSpans, scope_spans_bytes);
    head.bytes_field(field::kScopeSpansScope, scope_.view());
    ProtobufWriter tail;
    tail.bytes_field_unless_empty(field::kScopeSpansSchemaUrl, schema_url_);
    tail.bytes_field_unless_empty(field::kResourceSpansSchemaUrl, schema_url_);

    OtlpRequest request;
    request.spans = count_;
    request.stripped_spans = stripped_;
    request.payload.reserve(head.size() + end + tail.size());
    request.payload.append(head.view()).append(spans_.view().substr(0, end)).append(tail.view());

    spans_.remove_front(end);
    count_ = 0;
    stripped_ = 0;
    return request;
  }

  const SpanPlan& plan_;
  std::string resource_;
  std::string schema_url_;
  std::size_t max_request_bytes_;
  std::size_t max_request_spans_;
  ProtobufWriter scope_;
  ProtobufWriter spans_;  // of the request in the making; reused
  std::uint32_t count_ = 0;
  std::uint32_t stripped_ = 0;
  std::size_t overhead_bytes_ = 0;
  std::size_t next_span_ = 0;
};

OtlpRequestStream::OtlpRequestStream(const SpanPlan& plan, const OtlpOptions& options)
    : encoder_(std::make_unique<Encoder>(plan, options)) {}
OtlpRequestStream::~OtlpRequestStream() = default;
OtlpRequestStream::OtlpRequestStream(OtlpRequestStream&&) noexcept = default;
OtlpRequestStream& OtlpRequestStream::operator=(OtlpRequestStream&&) noexcept = default;

std::optional<OtlpRequest> OtlpRequestStream::next() { return encoder_->next(); }

}  // namespace torchprof
