// The buffers that CUPTI fills, up to a cap. Its callbacks come here, on any thread and with locks of CUPTI
// held: the lock of the pool is held over no call into CUPTI, and memory is allocated only below the cap.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <vector>

namespace torchprof::cupti {

inline constexpr std::size_t kBufferBytes = std::size_t{4} * 1024 * 1024;

// A buffer that CUPTI has filled, up to `valid_bytes`.
struct FilledBuffer {
  std::uint8_t* data = nullptr;
  std::size_t valid_bytes = 0;
  void* context = nullptr;
  std::uint32_t stream = 0;
};

class BufferPool {
 public:
  BufferPool() = default;
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;

  // From now on what is filled is kept to be read; `may_refuse`: CUPTI takes no for an answer.
  void open(std::size_t max_bytes, bool may_refuse) noexcept;
  // What is filled from now on is not kept; gives memory back.
  void close() noexcept;

  struct Taken {
    std::uint8_t* data = nullptr;             // nullptr: refused
    std::optional<FilledBuffer> unread = {};  // what was in it, lost when it is filled again
  };
  // At the cap: refused, or where CUPTI cannot be refused, the oldest buffer that nobody has read yet. Where
  // there is none either CUPTI holds them all itself: then one over the cap, as a refusal would end the
  // process.
  [[nodiscard]] Taken take() noexcept;
  // From CUPTI, filled.
  void put(const FilledBuffer& buffer) noexcept;

  // Waits for a filled buffer, to be given back with `read`. Nothing once `interrupt` was called and none is
  // left.
  [[nodiscard]] std::optional<FilledBuffer> next();
  void read(const FilledBuffer& buffer) noexcept;
  void interrupt() noexcept;
  // Waits until all that was filled is read.
  [[nodiscard]] bool wait_until_read(std::chrono::milliseconds timeout);

  // Without the lock, which in the child of a fork nobody may hold.
  [[nodiscard]] std::size_t allocated_bytes() const noexcept { return allocated_bytes_.load(); }

 private:
  // Under the lock.
  [[nodiscard]] std::uint8_t* allocate() noexcept;
  void keep_or_free(std::uint8_t* data) noexcept;
  [[nodiscard]] bool keep(std::uint8_t* data) noexcept;

  mutable std::mutex mutex_;
  std::condition_variable filled_signal_;
  std::condition_variable read_signal_;
  std::deque<FilledBuffer> filled_;
  std::vector<std::uint8_t*> free_;
  std::size_t reading_ = 0;
  std::atomic<std::size_t> allocated_bytes_{0};  // changed under the lock
  std::size_t max_bytes_ = kBufferBytes;
  bool may_refuse_ = false;
  bool open_ = false;
  bool interrupted_ = false;
};

}  // namespace torchprof::cupti
