// Where the fields of CUPTI's activity records lie: offsets of our own, so that one build reads the records
// of every CUPTI from CUDA 12.0 to 13.4 and none of its headers is needed. NVIDIA appends to these records
// and moves nothing: what is read here stands in the oldest of them, and cuptiActivityGetNextRecord knows how
// long they are. tests/test_cupti_layout.cpp compares with the headers, where they are.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace torchprof::cupti {

// CUpti_ActivityKind
enum class ActivityKind : std::uint32_t {
  kMemcpy = 1,
  kMemset = 2,
  kDriver = 4,
  kRuntime = 5,
  kConcurrentKernel = 10,
  kOverhead = 17,
  kMemcpy2 = 22,  // between devices
  kSynchronization = 38,
  kExternalCorrelation = 39,
  kGraphTrace = 51,
};

// Every record begins with its kind.
inline constexpr std::size_t kKind = 0;

namespace kernel {                            // CUpti_ActivityKernel9 to 13
inline constexpr std::size_t kRegisters = 6;  // u16
inline constexpr std::size_t kStart = 16;
inline constexpr std::size_t kEnd = 24;
inline constexpr std::size_t kDevice = 40;
inline constexpr std::size_t kContext = 44;
inline constexpr std::size_t kStream = 48;
inline constexpr std::size_t kGrid = 52;   // 3 x i32
inline constexpr std::size_t kBlock = 64;  // 3 x i32
inline constexpr std::size_t kStaticShared = 76;
inline constexpr std::size_t kDynamicShared = 80;
inline constexpr std::size_t kCorrelation = 92;
inline constexpr std::size_t kName = 104;
inline constexpr std::size_t kGraphNode = 144;
inline constexpr std::size_t kGraph = 156;
}  // namespace kernel

namespace memcpy_record {                       // CUpti_ActivityMemcpy5 to 7
inline constexpr std::size_t kCopyKind = 4;     // u8
inline constexpr std::size_t kSource = 5;       // u8
inline constexpr std::size_t kDestination = 6;  // u8
inline constexpr std::size_t kBytes = 8;
inline constexpr std::size_t kStart = 16;
inline constexpr std::size_t kEnd = 24;
inline constexpr std::size_t kDevice = 32;
inline constexpr std::size_t kContext = 36;
inline constexpr std::size_t kStream = 40;
inline constexpr std::size_t kCorrelation = 44;
inline constexpr std::size_t kGraphNode = 64;
inline constexpr std::size_t kGraph = 72;
}  // namespace memcpy_record

namespace peer_copy {  // CUpti_ActivityMemcpyPtoP4; begins as memcpy_record, up to its stream
inline constexpr std::size_t kCorrelation = 60;
inline constexpr std::size_t kGraphNode = 72;
inline constexpr std::size_t kGraph = 80;
}  // namespace peer_copy

namespace memset_record {  // CUpti_ActivityMemset4 and 5
inline constexpr std::size_t kBytes = 8;
inline constexpr std::size_t kStart = 16;
inline constexpr std::size_t kEnd = 24;
inline constexpr std::size_t kDevice = 32;
inline constexpr std::size_t kContext = 36;
inline constexpr std::size_t kStream = 40;
inline constexpr std::size_t kCorrelation = 44;
inline constexpr std::size_t kMemoryKind = 50;  // u16
inline constexpr std::size_t kGraphNode = 64;
inline constexpr std::size_t kGraph = 72;
}  // namespace memset_record

namespace api {  // CUpti_ActivityAPI: runtime and driver
inline constexpr std::size_t kCallback = 4;
inline constexpr std::size_t kStart = 8;
inline constexpr std::size_t kEnd = 16;
inline constexpr std::size_t kThread = 28;
inline constexpr std::size_t kCorrelation = 32;
}  // namespace api

namespace synchronization {  // CUpti_ActivitySynchronization and 2
inline constexpr std::size_t kType = 4;
inline constexpr std::size_t kStart = 8;
inline constexpr std::size_t kEnd = 16;
inline constexpr std::size_t kCorrelation = 24;
inline constexpr std::size_t kContext = 28;
inline constexpr std::size_t kStream = 32;
inline constexpr std::size_t kEvent = 36;
}  // namespace synchronization

namespace overhead {  // CUpti_ActivityOverhead to 3
inline constexpr std::size_t kOverheadKind = 4;
inline constexpr std::size_t kObjectKind = 8;
inline constexpr std::size_t kThread = 16;  // objectId.pt.threadId
inline constexpr std::size_t kStart = 24;
inline constexpr std::size_t kEnd = 32;
}  // namespace overhead

namespace external_correlation {  // CUpti_ActivityExternalCorrelation
inline constexpr std::size_t kExternalKind = 4;
inline constexpr std::size_t kExternalId = 8;
inline constexpr std::size_t kCorrelation = 16;
}  // namespace external_correlation

namespace graph_trace {  // CUpti_ActivityGraphTrace and 2
inline constexpr std::size_t kCorrelation = 4;
inline constexpr std::size_t kStart = 8;
inline constexpr std::size_t kEnd = 16;
inline constexpr std::size_t kDevice = 24;
inline constexpr std::size_t kGraph = 28;
inline constexpr std::size_t kContext = 32;
inline constexpr std::size_t kStream = 36;
}  // namespace graph_trace

// CUpti_ActivityObjectKind
inline constexpr std::uint32_t kObjectThread = 2;
// CUpti_ExternalCorrelationKind: CUSTOM0 and CUSTOM1 are Kineto's.
inline constexpr std::uint32_t kExternalKindOfOps = 5;

// A field of a record; records are aligned to 8 bytes, as are their fields.
template <typename T>
[[nodiscard]] T field(const std::byte* record, std::size_t offset) noexcept {
  std::array<std::byte, sizeof(T)> bytes;
  std::memcpy(bytes.data(), record + offset, sizeof(T));
  return std::bit_cast<T>(bytes);
}

}  // namespace torchprof::cupti
