#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/counter_series.h"
#include "spans/attribute_names.h"
#include "spans/plan_builder.h"

namespace torchprof {
namespace {

// `torch.cpu.` and the name, its letters made small and whatever is neither letter nor digit an underscore:
// `L1-dcache-load-misses` becomes `torch.cpu.l1_dcache_load_misses`.
std::string attribute_name(std::string_view counter) {
  std::string name(attributes::kCpuCounter.substr(0, attributes::kCpuCounter.find('<')));
  const std::size_t prefix_bytes = name.size();
  for (const char c : counter) {
    const char small = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    const bool is_plain = (small >= 'a' && small <= 'z') || (small >= '0' && small <= '9');
    if (is_plain) name += small;
    if (!is_plain && name.size() > prefix_bytes && name.back() != '_') name += '_';
  }
  if (name.back() == '_') name.pop_back();
  return name.size() == prefix_bytes ? name + "other" : name;
}

// The attributes of the counters of a recording, and which counter is which.
class CounterAttributes {
 public:
  explicit CounterAttributes(SpanPlan& plan) : plan_(plan), of_name_(plan.recording.strings.size()) {}

  // Nothing for what is no count.
  std::optional<std::uint32_t> of(std::uint32_t name) {
    if (!of_name_[name].known) {
      of_name_[name].known = true;
      if (is_counted(plan_.recording.strings.overload(name))) of_name_[name].attribute = add(name);
    }
    return of_name_[name].attribute;
  }

 private:
  struct Entry {
    bool known = false;
    std::optional<std::uint32_t> attribute;
  };

  std::uint32_t add(std::uint32_t name) {
    std::vector<std::string>& attributes = plan_.counter_attributes;
    const std::string text = attribute_name(plan_.recording.strings.name(name));
    const auto found = std::find(attributes.begin(), attributes.end(), text);
    if (found == attributes.end()) attributes.push_back(text);
    return static_cast<std::uint32_t>(std::find(attributes.begin(), attributes.end(), text) -
                                      attributes.begin());
  }

  SpanPlan& plan_;
  std::vector<Entry> of_name_;
};

// By root: of its step, else of the whole capture.
class RootFinder {
 public:
  explicit RootFinder(const SpanPlan& plan) : roots_(plan.roots), spans_(roots_.size(), PlannedSpan::kNone) {
    for (std::uint32_t i = 0; i < plan.spans.size(); ++i) {
      if (plan.spans[i].type == SpanType::kRoot) spans_[plan.spans[i].root] = i;
    }
  }

  // The span of the root that what was counted up to `time_ns` belongs to, kNone = none.
  [[nodiscard]] std::uint32_t span_at(std::int64_t time_ns) const {
    // A step's last reading comes before its end, the one of the step before up to its start.
    const auto after =
        std::lower_bound(roots_.begin(), roots_.end(), time_ns,
                         [](const SpanRoot& root, std::int64_t time) { return root.start_ns < time; });
    if (after == roots_.begin() || std::prev(after)->end_ns < time_ns) return PlannedSpan::kNone;
    return spans_[static_cast<std::size_t>(std::prev(after) - roots_.begin())];
  }

 private:
  const std::vector<SpanRoot>& roots_;
  std::vector<std::uint32_t> spans_;
};

void add_value(CountedOver& counted, std::uint32_t attribute, const CounterRecord& record, bool is_estimate) {
  const auto value = static_cast<std::int64_t>(std::llround(record.value));
  const auto total =
      std::find_if(counted.totals.begin(), counted.totals.end(),
                   [attribute](const CounterTotal& each) { return each.attribute == attribute; });
  if (total == counted.totals.end()) {
    counted.totals.push_back({.attribute = attribute, .value = value});
  } else {
    total->value += value;
  }
  std::vector<std::uint32_t>& estimated = counted.estimated;
  if (is_estimate && std::find(estimated.begin(), estimated.end(), attribute) == estimated.end()) {
    estimated.push_back(attribute);
  }
}

}  // namespace

void add_counters(SpanPlan& plan, const std::vector<std::uint32_t>& span_of) {
  plan.counter_attributes.clear();
  CounterAttributes attributes(plan);
  const RootFinder roots(plan);
  for (const CounterRecord& record : plan.recording.counters) {
    const auto attribute = attributes.of(record.name);
    if (!attribute || !std::isfinite(record.value)) continue;
    const std::uint32_t index = record.event >= 0 ? span_of[static_cast<std::size_t>(record.event)]
                                                  : roots.span_at(static_cast<std::int64_t>(record.time));
    if (index == PlannedSpan::kNone) continue;
    PlannedSpan& span = plan.spans[index];
    if (span.counted == PlannedSpan::kNone) {
      span.counted = static_cast<std::uint32_t>(plan.counted.size());
      plan.counted.emplace_back();
    }
    add_value(plan.counted[span.counted], *attribute, record,
              plan.recording.strings.overload(record.name) == kEstimated);
  }
}

}  // namespace torchprof
