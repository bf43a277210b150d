// One thread's way from a `const char*` to a string id without a lock.
//
// The first level is indexed by the pointers and checked by the text: names are often temporaries, so one
// pointer may carry many names. The second level is indexed by the text and serves just those names. What
// neither knows goes to the shared StringTable, once.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "core/string_table.h"

namespace torchprof {

class NameCache {
 public:
  // The entry of a name; `placeholder()` of the table when it is full.
  const StringEntry& find(const char* name, const char* overload, StringTable& table) noexcept {
    const StringEntry*& known = by_pointer_[pointer_index(name, overload)];
    if (known != nullptr && same_text(*known, name, overload)) [[likely]] {
      return *known;
    }
    return find_by_text(name, overload, table, known);
  }

  // Forgets everything: the next names belong to another recording.
  void clear() noexcept;

 private:
  static constexpr unsigned kPointerBits = 10;
  static constexpr std::size_t kFirstTextEntries = 128;
  static constexpr std::size_t kMaxTextEntries = 4096;

  struct TextEntry {
    std::uint64_t hash;
    const StringEntry* entry;
  };

  static std::size_t pointer_index(const char* name, const char* overload) noexcept {
    constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15;
    const auto a = reinterpret_cast<std::uintptr_t>(name);
    const auto b = reinterpret_cast<std::uintptr_t>(overload);
    return ((a ^ (b << 1U)) * kOdd) >> (64U - kPointerBits);
  }

  static bool same_text(const StringEntry& entry, const char* name, const char* overload) noexcept {
    const char* text = reinterpret_cast<const char*>(&entry + 1);
    return starts_and_ends(name, text, entry.name_bytes) &&
           starts_and_ends(overload, text + entry.name_bytes, entry.overload_bytes);
  }
  // `text` has no NUL in it, so strncmp stops at the end of a shorter `candidate`.
  static bool starts_and_ends(const char* candidate, const char* text, std::size_t bytes) noexcept {
    return std::strncmp(candidate, text, bytes) == 0 && candidate[bytes] == '\0';
  }

  const StringEntry& find_by_text(const char* name, const char* overload, StringTable& table,
                                  const StringEntry*& known) noexcept;
  void remember(std::uint64_t hash, const StringEntry& entry) noexcept;
  bool resize(std::size_t capacity) noexcept;

  std::array<const StringEntry*, std::size_t{1} << kPointerBits> by_pointer_{};
  std::unique_ptr<TextEntry[]> by_text_;  // linear probing, at most half full
  std::size_t text_capacity_ = 0;
  std::size_t text_count_ = 0;
};

}  // namespace torchprof
