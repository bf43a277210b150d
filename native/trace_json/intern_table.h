// Texts by number, each once: a trace says the same few thousand things a million times.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace torchprof {

class InternTable {
 public:
  InternTable();

  // The number of a text, from 0 in order of appearance.
  std::uint32_t intern(std::string_view text);
  [[nodiscard]] std::string_view text(std::uint32_t number) const noexcept;
  [[nodiscard]] std::size_t size() const noexcept { return entries_.size(); }

 private:
  struct Entry {
    std::uint64_t offset;
    std::uint64_t size_bytes;
    std::uint64_t hash;
  };

  void grow();

  std::uint64_t seed_;  // so that no file can be made whose texts all collide
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> slots_;  // number + 1, 0 = free; a power of two of them
  std::string bytes_;
};

// Several texts as one that differs for all different ones: each with its size in front.
class JoinedTexts {
 public:
  void clear() noexcept { joined_.clear(); }
  void add(std::string_view text);
  [[nodiscard]] std::string_view view() const noexcept { return joined_; }
  [[nodiscard]] static std::vector<std::string_view> split(std::string_view joined);

 private:
  std::string joined_;
};

}  // namespace torchprof
