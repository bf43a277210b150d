#include "trace_json/intern_table.h"

#include <bit>
#include <cstring>
#include <limits>
#include <random>
#include <stdexcept>

namespace torchprof {
namespace {

constexpr std::size_t kFirstSlots = 256;
constexpr std::uint64_t kMultiplier = 0x9E3779B97F4A7C15;  // 2^64 / golden ratio: spreads over the high bits

std::uint64_t load(const char* bytes) noexcept {
  std::uint64_t word;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

std::uint64_t mix(std::uint64_t state, std::uint64_t word) noexcept {
  const std::uint64_t product = (state ^ word) * kMultiplier;
  return product ^ (product >> 32);
}

// Four lanes, as one multiplication has to wait for the one before it.
std::uint64_t hash_of(std::string_view text, std::uint64_t seed) noexcept {
  std::uint64_t lanes[4] = {seed, seed + 1, seed + 2, seed + 3};
  const char* next = text.data();
  std::size_t left = text.size();
  for (; left >= sizeof(lanes); left -= sizeof(lanes), next += sizeof(lanes)) {
    for (std::size_t lane = 0; lane < 4; ++lane) lanes[lane] = mix(lanes[lane], load(next + 8 * lane));
  }
  for (; left >= 8; left -= 8, next += 8) lanes[0] = mix(lanes[0], load(next));
  std::uint64_t rest = text.size();
  for (; left > 0; --left, ++next) rest = rest << 8 | static_cast<unsigned char>(*next);
  lanes[1] = mix(lanes[1], rest);
  return mix(mix(lanes[0], lanes[1]), mix(lanes[2], lanes[3]));
}

}  // namespace

InternTable::InternTable()
    : seed_(std::uint64_t{std::random_device{}()} << 32 | std::random_device{}()), slots_(kFirstSlots) {}

std::string_view InternTable::text(std::uint32_t number) const noexcept {
  const Entry& entry = entries_[number];
  return std::string_view(bytes_).substr(entry.offset, entry.size_bytes);
}

std::uint32_t InternTable::intern(std::string_view text) {
  const std::uint64_t hash = hash_of(text, seed_);
  std::size_t slot = hash & (slots_.size() - 1);
  for (; slots_[slot] != 0; slot = (slot + 1) & (slots_.size() - 1)) {
    const std::uint32_t number = slots_[slot] - 1;
    if (entries_[number].hash == hash && this->text(number) == text) return number;
  }
  if (entries_.size() == std::numeric_limits<std::uint32_t>::max() - 1) {
    throw std::length_error("more than 4 billion different texts in a trace");
  }
  const auto number = static_cast<std::uint32_t>(entries_.size());
  entries_.push_back({.offset = bytes_.size(), .size_bytes = text.size(), .hash = hash});
  bytes_.append(text);
  slots_[slot] = number + 1;
  if (entries_.size() * 2 > slots_.size()) grow();
  return number;
}

void InternTable::grow() {
  slots_.assign(slots_.size() * 2, 0);
  for (std::uint32_t number = 0; number < entries_.size(); ++number) {
    std::size_t slot = entries_[number].hash & (slots_.size() - 1);
    while (slots_[slot] != 0) slot = (slot + 1) & (slots_.size() - 1);
    slots_[slot] = number + 1;
  }
}

void JoinedTexts::add(std::string_view text) {
  const auto size_bytes = static_cast<std::uint64_t>(text.size());
  joined_.append(reinterpret_cast<const char*>(&size_bytes), sizeof(size_bytes));
  joined_.append(text);
}

std::vector<std::string_view> JoinedTexts::split(std::string_view joined) {
  std::vector<std::string_view> texts;
  while (!joined.empty()) {
    const std::uint64_t size_bytes = load(joined.data());
    texts.push_back(joined.substr(sizeof(size_bytes), size_bytes));
    joined.remove_prefix(sizeof(size_bytes) + size_bytes);
  }
  return texts;
}

}  // namespace torchprof
