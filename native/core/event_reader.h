// Turns the records of ops, of Python frames and of saved events into rows of an EventTable.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/chunk_index.h"
#include "core/frame_reader.h"
#include "core/recording.h"
#include "core/string_reader.h"
#include "core/time_reader.h"
#include "core/track_reader.h"

namespace torchprof {

// Where the inputs of ops may lie.
class PayloadRanges {
 public:
  PayloadRanges(std::span<const std::byte> file, const std::vector<Chunk>& chunks);

  [[nodiscard]] bool empty() const noexcept { return ranges_.empty(); }
  // Whether `size_bytes` bytes at `offset` were written by the recorder.
  [[nodiscard]] bool holds(std::uint64_t offset, std::uint64_t size_bytes) const noexcept;
  // As an offset into the file, for inputs with their length in front; 0 and a problem where there is none.
  [[nodiscard]] std::uint64_t inputs_offset(std::uint32_t payload, ProblemCounts& problems) const noexcept;

 private:
  struct Range {
    std::uint64_t begin;
    std::uint64_t end;
  };
  std::span<const std::byte> file_;
  std::vector<Range> ranges_;  // ascending, disjoint
};

struct EventTimes {
  std::int64_t start_ns;
  std::int64_t end_ns;
};

class EventReader {
 public:
  EventReader(std::span<const std::byte> file, const StringIds& strings, const PayloadRanges& payload,
              TimeReader& times, TrackReader& tracks, ProblemCounts& problems)
      : file_(file),
        strings_(strings),
        payload_(payload),
        times_(times),
        tracks_(tracks),
        problems_(problems) {}

  // `chunks` may be an earlier index than the one that strings, threads and payload were read by.
  // Ends of ops that are still open are left to finish().
  void read(const std::vector<Chunk>& chunks);
  // Events read so far.
  [[nodiscard]] std::uint64_t count() const noexcept { return events_.size(); }

  // Rows of what a device reports, after all others; `name` as in EventTable. The row is the number of the
  // event in the order of the file.
  std::uint64_t add_device_event(std::uint8_t kind, std::uint32_t name, std::uint32_t track,
                                 const EventTimes& times, std::int64_t correlation);
  // The row of the op whose record lies there: `place` as in DeviceOpRecord. Only of files with such records.
  [[nodiscard]] std::optional<std::uint64_t> row_of_op(std::uint32_t place) const;
  // Moves what this op did on its own thread, the track, between its start and its end.
  void fit_into_op(std::uint32_t place, std::uint32_t track, EventTimes& times) const;

  // Gives the open ops `last_ns` for an end and establishes the order of rows. Returns the new row of each
  // event in the order of the file, empty when that is the same.
  std::vector<std::uint64_t> finish(std::int64_t last_ns);

  [[nodiscard]] EventTable take() { return std::move(events_); }

 private:
  // The chunks of one track, each kind in sequence.
  void read_track(std::uint32_t track, std::span<const Chunk* const> op_chunks,
                  std::span<const Chunk* const> frame_chunks);
  void read_op(const OpRecord& op, std::uint32_t track);
  void read_frame(const FrameSlice& frame, std::uint32_t track);
  void reserve(std::uint64_t rows);
  // Of the row that is added next; `error` as in OpRecord.
  void add_error(std::uint32_t error);
  void read_saved(const EventRecord& event);
  [[nodiscard]] std::uint8_t known_kind(std::uint8_t kind) noexcept;

  std::span<const std::byte> file_;
  const StringIds& strings_;
  const PayloadRanges& payload_;
  TimeReader& times_;
  TrackReader& tracks_;
  ProblemCounts& problems_;
  EventTable events_;
  std::vector<std::uint64_t> open_rows_;
  bool refers_to_ops_ = false;                                    // a device's records do
  std::vector<std::pair<std::uint32_t, std::uint64_t>> op_rows_;  // by place
  bool has_device_events_ = false;
};

}  // namespace torchprof
