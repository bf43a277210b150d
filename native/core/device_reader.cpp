#include "core/device_reader.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <unordered_map>
#include <utility>

namespace torchprof {
namespace {

constexpr float kUnknown = std::numeric_limits<float>::quiet_NaN();
constexpr float kThreadsPerWarp = 32;

// In order of correlation id; the first with an id counts.
class Correlations {
 public:
  void add(std::int64_t correlation, std::uint64_t value) {
    if (correlation >= 0) entries_.emplace_back(correlation, value);
  }
  void order() {
    std::stable_sort(entries_.begin(), entries_.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
  }
  [[nodiscard]] std::optional<std::uint64_t> find(std::int64_t correlation) const {
    const auto found =
        std::lower_bound(entries_.begin(), entries_.end(), correlation,
                         [](const auto& entry, std::int64_t wanted) { return entry.first < wanted; });
    if (correlation < 0 || found == entries_.end() || found->first != correlation) return std::nullopt;
    return found->second;
  }

 private:
  std::vector<std::pair<std::int64_t, std::uint64_t>> entries_;
};

DeviceRecord blank_record(std::uint64_t row) {
  DeviceRecord record{};
  record.event = row;
  record.external_id = record.stream = record.size_bytes = -1;
  record.graph_id = record.graph_node_id = record.wait_correlation = -1;
  record.wait_stream = record.wait_event = record.device = record.context = -1;
  record.registers = record.shared_bytes = record.callback_id = record.priority = -1;
  record.blocks_per_sm = record.warps_per_sm = record.occupancy_percent = kUnknown;
  return record;
}

class DeviceReader {
 public:
  DeviceReader(std::span<const std::byte> file, const std::vector<Chunk>& chunks, const StringIds& strings,
               TimeReader& times, TrackReader& tracks, EventReader& events, ProblemCounts& problems)
      : file_(file),
        chunks_(chunks),
        strings_(strings),
        times_(times),
        tracks_(tracks),
        events_(events),
        problems_(problems) {}

  DeviceRows read() {
    each<DeviceOpRecord>(ChunkKind::kDeviceOps, [this](const DeviceOpRecord& record) {
      if (events_.row_of_op(record.op)) op_places_.add(record.correlation, record.op);
    });
    op_places_.order();
    each<DeviceCallRecord>(ChunkKind::kDeviceCalls, [this](const DeviceCallRecord& call) { add_call(call); });
    calls_.order();
    own_calls_.order();
    // A synchronization says in which context it waited, not on which device.
    each<DeviceWorkRecord>(ChunkKind::kDeviceWork, [this](const DeviceWorkRecord& work) {
      if (work.device >= 0) device_of_context_.try_emplace(work.context, work.device);
    });
    each<DeviceWorkRecord>(ChunkKind::kDeviceWork, [this](const DeviceWorkRecord& work) { add_work(work); });
    return std::move(rows_);
  }

 private:
  template <typename Record, typename Function>
  void each(ChunkKind kind, Function function) {
    for (const Chunk& chunk : chunks_) {
      if (chunk.kind != kind) continue;
      for (const Record& record : records_of<Record>(file_, chunk)) function(record);
    }
  }

  void add_call(const DeviceCallRecord& call) {
    if ((call.flags & kOwnCall) != 0) return own_calls_.add(call.correlation, 0);
    EventTimes when = times_of(call.start_ticks, call.end_ticks);
    const std::uint32_t track = tracks_.of_thread(call.thread);
    const std::int64_t external_id = external_id_of(call.correlation);
    if (external_id >= 0) events_.fit_into_op(static_cast<std::uint32_t>(external_id), track, when);
    const std::uint64_t row = events_.add_device_event(call.kind, strings_.find(call.name, problems_), track,
                                                       when, call.correlation);
    calls_.add(call.correlation, row);
    if (call.callback_id < 0 && external_id < 0) return;
    DeviceRecord record = blank_record(row);
    record.callback_id = call.callback_id;
    record.external_id = external_id;
    rows_.devices.push_back(record);
  }

  void add_work(const DeviceWorkRecord& work) {
    if (own_calls_.find(work.correlation)) return;
    DeviceRecord record = record_of(work);
    const std::uint32_t track = tracks_.of_stream(record.device, work.context, work.stream);
    record.event = events_.add_device_event(work.kind, strings_.find(work.name, problems_), track,
                                            times_of(work.start_ticks, work.end_ticks), work.correlation);
    rows_.devices.push_back(record);

    std::optional<std::uint64_t> launcher = calls_.find(work.correlation);
    if (!launcher && record.external_id >= 0) {
      launcher = events_.row_of_op(static_cast<std::uint32_t>(record.external_id));
    }
    if (!launcher) return;
    rows_.links.from.push_back(*launcher);
    rows_.links.to.push_back(record.event);
    rows_.links.type.push_back(static_cast<std::uint32_t>(LinkType::kLaunch));
  }

  [[nodiscard]] DeviceRecord record_of(const DeviceWorkRecord& work) const {
    DeviceRecord record = blank_record(0);
    record.external_id = external_id_of(work.correlation);
    record.stream = work.stream;
    record.size_bytes = work.size_bytes;
    record.graph_id = work.graph_id;
    record.graph_node_id = work.graph_node_id;
    record.wait_stream = work.wait_stream;
    record.wait_event = work.wait_event;
    record.device = work.device;
    if (const auto known = device_of_context_.find(work.context);
        work.device < 0 && known != device_of_context_.end()) {
      record.device = known->second;
    }
    record.context = work.context;
    std::copy(std::begin(work.grid), std::end(work.grid), std::begin(record.grid));
    std::copy(std::begin(work.block), std::end(work.block), std::begin(record.block));
    record.registers = work.registers;
    record.shared_bytes = work.shared_bytes;
    if (work.multiprocessors != 0 && work.grid[0] != 0) {
      const float blocks = static_cast<float>(work.grid[0]) * static_cast<float>(work.grid[1]) *
                           static_cast<float>(work.grid[2]);
      const float threads = static_cast<float>(work.block[0]) * static_cast<float>(work.block[1]) *
                            static_cast<float>(work.block[2]);
      record.blocks_per_sm = blocks / static_cast<float>(work.multiprocessors);
      record.warps_per_sm = record.blocks_per_sm * threads / kThreadsPerWarp;
    }
    return record;
  }

  [[nodiscard]] EventTimes times_of(std::uint64_t start_ticks, std::uint64_t end_ticks) {
    const std::int64_t start_ns = times_.unix_ns(start_ticks);
    return {.start_ns = start_ns, .end_ns = times_.no_earlier(times_.unix_ns(end_ticks), start_ns)};
  }

  // The op around the call: the place of its record in the file; -1 = not known.
  [[nodiscard]] std::int64_t external_id_of(std::int64_t correlation) const {
    const std::optional<std::uint64_t> op = op_places_.find(correlation);
    return op ? static_cast<std::int64_t>(*op) : -1;
  }

  std::span<const std::byte> file_;
  const std::vector<Chunk>& chunks_;
  const StringIds& strings_;
  TimeReader& times_;
  TrackReader& tracks_;
  EventReader& events_;
  ProblemCounts& problems_;
  Correlations op_places_;  // the op that was running, by the correlation id of the call
  Correlations calls_;      // rows
  Correlations own_calls_;  // of the recorder
  std::unordered_map<std::int32_t, std::int32_t> device_of_context_;
  DeviceRows rows_;
};

}  // namespace

DeviceRows read_device(std::span<const std::byte> file, const std::vector<Chunk>& chunks,
                       const StringIds& strings, TimeReader& times, TrackReader& tracks, EventReader& events,
                       ProblemCounts& problems) {
  return DeviceReader(file, chunks, strings, times, tracks, events, problems).read();
}

}  // namespace torchprof
