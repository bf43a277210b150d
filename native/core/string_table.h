// The names of one recording, each stored once, shared by all threads. A name is an operator's name plus
// its overload name; both are arbitrary bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string_view>
#include <vector>

#include "core/chunk_cursor.h"
#include "core/layout.h"

namespace torchprof {

inline constexpr std::size_t kMaxNameBytes = 64 * 1024;
inline constexpr std::size_t kMaxNames = std::size_t{1} << 20U;

struct Name {
  std::string_view name;
  std::string_view overload;

  [[nodiscard]] std::uint64_t hash() const noexcept;
};

// The bytes behind a StringEntry.
inline std::string_view entry_name(const StringEntry& entry) noexcept {
  return {reinterpret_cast<const char*>(&entry + 1), entry.name_bytes};
}
inline std::string_view entry_overload(const StringEntry& entry) noexcept {
  return {reinterpret_cast<const char*>(&entry + 1) + entry.name_bytes, entry.overload_bytes};
}
inline bool equals(const StringEntry& entry, const Name& name) noexcept {
  return entry_name(entry) == name.name && entry_overload(entry) == name.overload;
}

class StringTable {
 public:
  // Throws std::bad_alloc when even the first chunk cannot be had.
  explicit StringTable(Arena& arena);

  // The entry of a name, added when it is new. When the table is full: `placeholder()`. Entries live as
  // long as the arena and never change.
  const StringEntry& intern(const Name& name, std::uint64_t hash) noexcept;
  // What stands for names that found no room.
  [[nodiscard]] const StringEntry& placeholder() const noexcept { return *placeholder_; }
  // By its id, the first there is: no further cache line is read.
  [[nodiscard]] static bool is_placeholder(const StringEntry& entry) noexcept { return entry.id == 1; }

 private:
  struct Bucket {
    std::uint64_t hash = 0;
    const StringEntry* entry = nullptr;
  };
  [[nodiscard]] Bucket& bucket_for(const Name& name, std::uint64_t hash) noexcept;
  [[nodiscard]] bool grow() noexcept;
  [[nodiscard]] const StringEntry* append(const Name& name) noexcept;

  std::mutex mutex_;
  Arena& arena_;
  ChunkCursor cursor_;
  std::vector<Bucket> buckets_;  // a power of two, linear probing, at most half full
  std::uint32_t count_ = 0;
  const StringEntry* placeholder_ = nullptr;
};

}  // namespace torchprof
