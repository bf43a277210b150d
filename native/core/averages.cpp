#include "core/averages.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <unordered_map>

#include "core/event_memory.h"
#include "core/shape_ids.h"

namespace torchprof {
namespace {

constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
constexpr std::size_t kKinds = static_cast<std::size_t>(EventKind::kOther) + 1;

// Gives every event the number of its group, without a hash for all but grouping by shapes.
class Grouping {
 public:
  Grouping(const Recording& recording, const AveragesOptions& options, Averages& averages)
      : events_(recording.events), averages_(averages), canonical_name_(canonical_names(recording, options)) {
    group_of_name_and_kind_.assign(canonical_name_.size() * kKinds, kNone);
    if (options.by_shapes) {
      shapes_ = input_shape_ids(recording);
      averages.damaged_inputs = shapes_.damaged_inputs;
    }
  }

  std::uint32_t group(std::uint64_t row) {
    const std::uint32_t name = canonical_name_[events_.name[row]];
    std::uint32_t& by_name = group_of_name_and_kind_[name * kKinds + events_.kind[row]];
    if (shapes_.by_row.empty() || shapes_.by_row[row] == 0) {
      if (by_name == kNone) by_name = add_group(name, row);
      return by_name;
    }
    const std::uint64_t name_and_kind = std::uint64_t{name} * kKinds + events_.kind[row];
    const auto [entry, inserted] = group_of_shapes_.try_emplace({name_and_kind, shapes_.by_row[row]}, kNone);
    if (inserted) entry->second = add_group(name, row);
    return entry->second;
  }

 private:
  struct ShapeGroup {
    std::uint64_t name_and_kind;
    std::uint32_t shapes;
    bool operator==(const ShapeGroup&) const = default;
  };
  struct ShapeGroupHash {
    std::size_t operator()(const ShapeGroup& group) const noexcept {
      return std::hash<std::uint64_t>{}(group.name_and_kind * 0x9E3779B97F4A7C15U ^ group.shapes);
    }
  };

  // Ids that stand for the same group: several strings may be equal, or differ in the overload alone.
  static std::vector<std::uint32_t> canonical_names(const Recording& recording,
                                                    const AveragesOptions& options) {
    const StringPool& strings = recording.strings;
    std::vector<std::uint32_t> canonical(strings.size());
    std::unordered_map<std::string, std::uint32_t> first_ids;
    for (std::uint32_t id = 0; id < strings.size(); ++id) {
      std::string key(strings.name(id));
      // NUL cannot occur in a name that torch hands out, so it keeps name and overload apart.
      if (options.by_overload) key.append(1, '\0').append(strings.overload(id));
      canonical[id] = first_ids.try_emplace(std::move(key), id).first->second;
    }
    return canonical;
  }

  std::uint32_t add_group(std::uint32_t name, std::uint64_t row) {
    averages_.name.push_back(name);
    averages_.kind.push_back(events_.kind[row]);
    averages_.first_row.push_back(row);
    averages_.calls.push_back(0);
    averages_.total_ns.push_back(0);
    averages_.self_ns.push_back(0);
    return static_cast<std::uint32_t>(averages_.name.size() - 1);
  }

  const EventTable& events_;
  Averages& averages_;
  std::vector<std::uint32_t> canonical_name_;
  std::vector<std::uint32_t> group_of_name_and_kind_;
  ShapeIds shapes_;
  std::unordered_map<ShapeGroup, std::uint32_t, ShapeGroupHash> group_of_shapes_;
};

// The events that enclose the row at hand, and for each group how deep its outermost one lies: enough to
// tell in one step whether an event is inside one of its own group.
class EnclosingEvents {
 public:
  void pop_until(std::int64_t parent) {
    while (!stack_.empty() && stack_.back().row != parent) pop();
  }

  void push(std::int64_t row, std::uint32_t group) {
    if (group >= outermost_depth_.size()) outermost_depth_.resize(group + 1, kNone);
    const auto depth = static_cast<std::uint32_t>(stack_.size());
    const bool is_outermost = outermost_depth_[group] == kNone;
    if (is_outermost) outermost_depth_[group] = depth;
    stack_.push_back({row, group, is_outermost});
  }

  // An event that encloses others but is in no group.
  void push_ungrouped(std::int64_t row) { stack_.push_back({row, kNone, false}); }

  // Whether `row` or an event around it is of `group`; `row` is on the stack, or -1.
  [[nodiscard]] bool holds(std::int64_t row, std::uint32_t group) const {
    if (row < 0 || group >= outermost_depth_.size() || outermost_depth_[group] == kNone) return false;
    return stack_[outermost_depth_[group]].row <= row;
  }

 private:
  struct Enclosing {
    std::int64_t row;
    std::uint32_t group;
    bool is_outermost;
  };

  void pop() {
    if (stack_.back().is_outermost) outermost_depth_[stack_.back().group] = kNone;
    stack_.pop_back();
  }

  std::vector<Enclosing> stack_;
  std::vector<std::uint32_t> outermost_depth_;  // by group
};

// Sums over a damaged file may pass what 64 bits hold.
void add_saturated(std::int64_t& sum, std::int64_t value) {
  if (!__builtin_add_overflow(sum, value, &sum)) return;
  sum = value > 0 ? std::numeric_limits<std::int64_t>::max() : std::numeric_limits<std::int64_t>::min();
}

// Adds what events allocated minus what they freed to their groups.
class MemorySums {
 public:
  MemorySums(const Recording& recording, const Tree& tree, MemoryOf memory, std::vector<std::int64_t>& bytes,
             std::vector<std::int64_t>& self_bytes)
      : memory_(event_memory(recording, tree, memory)), bytes_(bytes), self_bytes_(self_bytes) {}

  void add(std::uint32_t group, std::uint64_t row, bool is_outermost) {
    if (group >= bytes_.size()) {
      bytes_.resize(group + 1);
      self_bytes_.resize(group + 1);
    }
    add_saturated(self_bytes_[group], memory_.self_allocated[row]);
    add_saturated(self_bytes_[group], -memory_.self_freed[row]);
    if (!is_outermost) return;
    add_saturated(bytes_[group], memory_.allocated[row]);
    add_saturated(bytes_[group], -memory_.freed[row]);
  }

 private:
  EventMemory memory_;
  std::vector<std::int64_t>& bytes_;
  std::vector<std::int64_t>& self_bytes_;
};

bool starts_within(const std::vector<TimeRange>& disjoint_ranges, std::int64_t start_ns) {
  const auto after =
      std::upper_bound(disjoint_ranges.begin(), disjoint_ranges.end(), start_ns,
                       [](std::int64_t time_ns, const TimeRange& range) { return time_ns < range.start_ns; });
  return after != disjoint_ranges.begin() && start_ns < std::prev(after)->end_ns;
}

std::vector<TimeRange> merge_overlapping(std::vector<TimeRange> ranges) {
  std::sort(ranges.begin(), ranges.end(),
            [](const TimeRange& a, const TimeRange& b) { return a.start_ns < b.start_ns; });
  std::vector<TimeRange> merged;
  for (const TimeRange& range : ranges) {
    if (!merged.empty() && range.start_ns <= merged.back().end_ns) {
      merged.back().end_ns = std::max(merged.back().end_ns, range.end_ns);
    } else {
      merged.push_back(range);
    }
  }
  return merged;
}

}  // namespace

Averages build_averages(const Recording& recording, const Tree& tree, const AveragesOptions& options) {
  const EventTable& events = recording.events;
  const std::vector<TimeRange> ranges = merge_overlapping(options.ranges);
  Averages averages;
  Grouping grouping(recording, options, averages);
  EnclosingEvents enclosing;
  std::optional<MemorySums> host_memory;
  std::optional<MemorySums> device_memory;
  if (!recording.memory.empty()) {
    host_memory.emplace(recording, tree, MemoryOf::kHost, averages.host_bytes, averages.self_host_bytes);
    device_memory.emplace(recording, tree, MemoryOf::kDevices, averages.device_bytes,
                          averages.self_device_bytes);
  }

  for (std::uint64_t row = 0; row < events.size(); ++row) {
    const bool is_sync = !is_async(events.flags[row]);
    // Events that enclose an async one may still enclose later ones, so only others close them.
    if (is_sync) enclosing.pop_until(tree.parent[row]);
    if (options.only_ranges && !starts_within(ranges, events.start_ns[row])) {
      if (is_sync) enclosing.push_ungrouped(static_cast<std::int64_t>(row));
      continue;
    }
    const std::uint32_t group = grouping.group(row);
    averages.calls[group] += 1;
    add_saturated(averages.self_ns[group], tree.self_ns[row]);
    const bool is_outermost = !enclosing.holds(tree.parent[row], group);
    if (is_outermost) {
      add_saturated(averages.total_ns[group], events.end_ns[row] - events.start_ns[row]);
    }
    if (host_memory) host_memory->add(group, row, is_outermost);
    if (device_memory) device_memory->add(group, row, is_outermost);
    if (is_sync) enclosing.push(static_cast<std::int64_t>(row), group);
  }
  return averages;
}

}  // namespace torchprof
