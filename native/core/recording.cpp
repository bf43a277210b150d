#include "core/recording.h"

namespace torchprof {

StringPool::StringPool() : entries_(1) {}

std::uint32_t StringPool::add(std::string_view name, std::string_view overload) {
  entries_.push_back({.offset = bytes_.size(),
                      .name_bytes = static_cast<std::uint32_t>(name.size()),
                      .overload_bytes = static_cast<std::uint32_t>(overload.size())});
  bytes_.append(name);
  bytes_.append(overload);
  return static_cast<std::uint32_t>(entries_.size() - 1);
}

std::string_view StringPool::name(std::uint32_t id) const noexcept {
  if (id >= entries_.size()) return {};
  const Entry& entry = entries_[id];
  return std::string_view(bytes_).substr(entry.offset, entry.name_bytes);
}

std::string_view StringPool::overload(std::uint32_t id) const noexcept {
  if (id >= entries_.size()) return {};
  const Entry& entry = entries_[id];
  return std::string_view(bytes_).substr(entry.offset + entry.name_bytes, entry.overload_bytes);
}

}  // namespace torchprof
