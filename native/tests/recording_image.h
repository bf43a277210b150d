// The bytes of a capture's recording, laid down by hand, to test what reads them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <vector>

#include "core/layout.h"
#include "core/reader.h"

namespace torchprof {

class RecordingImage {
 public:
  // Counts in unix ns unless told otherwise, so that times come out as they were put in.
  explicit RecordingImage(std::size_t granules = 64)
      : words_(granules * kGranuleBytes / sizeof(std::uint64_t)) {
    FileHeader& header = *new (words_.data()) FileHeader{};
    std::memcpy(header.magic, kFileMagic, sizeof(header.magic));
    header.version = kFormatVersion;
    header.endian = kEndianMark;
    header.header_bytes = kGranuleBytes;
    header.granule_bytes = kGranuleBytes;
    header.used_bytes = kGranuleBytes;
    header.state = static_cast<std::uint32_t>(RecordingState::kStopped);
    header.clock_source = static_cast<std::uint32_t>(ClockSource::kUnixNs);
    header.process_id = 42;
  }

  FileHeader& header() { return *reinterpret_cast<FileHeader*>(words_.data()); }
  std::span<std::byte> bytes() { return std::as_writable_bytes(std::span(words_)); }

  ChunkHeader& add_chunk(ChunkKind kind, std::size_t record_bytes, std::uint32_t thread,
                         std::uint32_t sequence = 0) {
    const std::uint64_t offset = header().used_bytes;
    ChunkHeader& chunk = *new (bytes().data() + offset) ChunkHeader{};
    chunk.magic = kChunkMagic;
    chunk.kind = static_cast<std::uint16_t>(kind);
    chunk.record_bytes = static_cast<std::uint16_t>(record_bytes);
    chunk.size_bytes = kGranuleBytes;
    chunk.thread = thread;
    chunk.sequence = sequence;
    header().used_bytes = offset + kGranuleBytes;
    return chunk;
  }

  template <typename Record>
  static Record& add_record(ChunkHeader& chunk) {
    auto* const records = reinterpret_cast<Record*>(&chunk + 1);
    return *new (records + chunk.committed++) Record{};
  }

  static OpRecord& add_op(ChunkHeader& chunk, std::uint64_t start, std::uint64_t end,
                          std::uint32_t name = 1) {
    OpRecord& op = add_record<OpRecord>(chunk);
    op.start_ticks = start;
    op.end_ticks = end;
    op.name = name;
    op.sequence = -1;
    return op;
  }

  static void add_thread(ChunkHeader& chunk, std::uint32_t ordinal, std::string_view name) {
    ThreadRecord& thread = add_record<ThreadRecord>(chunk);
    thread.ordinal = ordinal;
    thread.os_thread_id = 1000 + ordinal;
    thread.torch_thread_id = ordinal;
    std::copy_n(name.data(), std::min(name.size(), sizeof(thread.name) - 1), thread.name);
  }

  static void add_string(ChunkHeader& chunk, std::uint32_t id, std::string_view name,
                         std::string_view overload = {}) {
    std::byte* const target = reinterpret_cast<std::byte*>(&chunk + 1) + chunk.committed;
    const StringEntry entry{id, static_cast<std::uint32_t>(name.size()),
                            static_cast<std::uint32_t>(overload.size()), 0};
    std::memcpy(target, &entry, sizeof(entry));
    char* const text = reinterpret_cast<char*>(target + sizeof(entry));
    std::copy(overload.begin(), overload.end(), std::copy(name.begin(), name.end(), text));
    chunk.committed += (sizeof(entry) + name.size() + overload.size() + 7) / 8 * 8;
  }

  // Offset in units of kPayloadAlignBytes.
  std::uint32_t add_payload(ChunkHeader& chunk, std::span<const std::uint8_t> payload) {
    std::byte* const target = reinterpret_cast<std::byte*>(&chunk + 1) + chunk.committed;
    std::memcpy(target, payload.data(), payload.size());
    chunk.committed += (payload.size() + 7) / 8 * 8;
    return static_cast<std::uint32_t>((target - bytes().data()) / kPayloadAlignBytes);
  }

  Recording read() { return read_recording(bytes(), nullptr); }

 private:
  std::vector<std::uint64_t> words_;
};

// How often a reader met a problem.
inline std::uint64_t problem_count(const Recording& recording, std::string_view name) {
  for (const Problem& problem : recording.problems) {
    if (problem.name == name) return problem.count;
  }
  return 0;
}

}  // namespace torchprof
