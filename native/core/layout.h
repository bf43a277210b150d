// The bytes of a `.tprof` recording, drawn once. The reader, the writer and the recorder all include
// this file; docs/recording-format.md explains it in prose.
//
//   0            16384                                                  used_bytes
//   +------------+----------------+----------------+--------------------+
//   | FileHeader | chunk          | chunk          | ...                |
//   +------------+----------------+----------------+--------------------+
//                 64 bytes header, then records of one kind
//
// A chunk starts at a multiple of kGranuleBytes (the header fills the first granule) and belongs to one
// thread. Only that thread appends to it; `committed` is the last thing it stores, so whatever a killed
// process left behind is valid up to `committed`. All integers are little endian.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace torchprof {

inline constexpr char kFileMagic[8] = {'T', 'P', 'R', 'O', 'F', '\r', '\n', '\x1a'};
inline constexpr std::uint32_t kFormatVersion = 1;
inline constexpr std::uint32_t kEndianMark = 0x01020304;
inline constexpr std::uint32_t kChunkMagic = 0x4B4E4843;  // "CHNK"
inline constexpr std::uint64_t kGranuleBytes = std::uint64_t{16} * 1024;
inline constexpr std::uint64_t kMaxChunkBytes = std::uint64_t{1024} * 1024;
inline constexpr std::uint64_t kPayloadAlignBytes = 8;
inline constexpr std::uint64_t kMaxArgumentsBytes = std::uint64_t{256} * 1024;

// What the timestamps of a recording count.
enum class ClockSource : std::uint32_t { kTsc = 0, kCntvct = 1, kMonotonicRaw = 2, kUnixNs = 3 };

// One moment read on three clocks as nearly at once as the machine allows.
struct ClockPair {
  std::uint64_t ticks;
  std::int64_t realtime_ns;
  std::int64_t monotonic_ns;
};

// Why something was not recorded. The index is part of the format; names in drop_reason.cpp.
enum class DropReason : std::uint32_t {
  kByteCap = 0,           // the recording reached its cap
  kDiskFull = 1,          // posix_fallocate failed
  kNoThreadState = 2,     // no memory for a thread's state
  kStackTooDeep = 3,      // more open events on a thread than kMaxOpenEvents
  kPayloadTooLarge = 4,   // shapes and inputs of one op over their bound
  kNameTableFull = 5,     // a name replaced by a placeholder
  kUnmatchedEnd = 6,      // an end whose start was not recorded
  kStartAfterStop = 7,    // an event that began while the capture was stopping
  kProfilerReplaced = 8,  // a thread whose Python calls went to a profiler set after ours
  kNotCounted = 9,        // counters of a thread or an event that could not be read, or never had their turn
  kDeviceDropped = 10,    // work and calls that the device's own profiling interface had no room for
  kDeviceNoTime = 11,     // work and calls that it gave no start or no end
  kDeviceTooEarly = 12,   // what had ended before this capture began to record the device
  kMemoryLimit = 13,      // the recordings of the process had all the memory that a limit leaves them
  kCount = 16,
};

enum class RecordingState : std::uint32_t { kRecording = 0, kStopped = 1 };

struct FileHeader {
  char magic[8];
  std::uint32_t version;
  std::uint32_t endian;
  std::uint32_t header_bytes;   // kGranuleBytes
  std::uint32_t granule_bytes;  // kGranuleBytes
  std::uint64_t cap_bytes;
  std::atomic<std::uint64_t> used_bytes;  // end of the last chunk handed out
  std::atomic<std::uint32_t> state;       // RecordingState
  std::uint32_t clock_source;             // ClockSource
  ClockPair clock_start;
  // Written by the helper thread now and then and at stop, so that a killed process leaves a usable
  // calibration. `clock_latest_sequence` is a sequence lock: odd while the pair is being written.
  std::atomic<std::uint64_t> clock_latest_sequence;
  ClockPair clock_latest;
  std::uint64_t process_id;
  std::uint64_t process_instance;  // random, one a process start; the base of span ids
  std::atomic<std::uint64_t> drops[static_cast<std::size_t>(DropReason::kCount)];
};
static_assert(sizeof(FileHeader) <= kGranuleBytes);

enum class ChunkKind : std::uint16_t {
  kFree = 0,  // nothing: what an exited thread gave back; readers step over it
  kOps = 1,   // OpRecord
  // Bytes, referred to by file offset / kPayloadAlignBytes. Inputs of an op: u32 size, then as many
  // bytes. Links of a step: StepRecord::links_count entries, no size before them.
  kPayload = 2,
  kStrings = 3,       // StringEntry + bytes, 8-byte aligned
  kThreads = 4,       // ThreadRecord
  kSteps = 5,         // StepRecord
  kMetadata = 6,      // UTF-8 JSON objects, one a line; later keys win
  kEvents = 7,        // EventRecord: any event of a saved Recording
  kTracks = 8,        // TrackRecord
  kLinks = 9,         // LinkRecord
  kDevice = 10,       // DeviceRecord
  kCounters = 11,     // CounterRecord
  kMemory = 12,       // MemoryRecord
  kFrames = 13,       // FrameRecord
  kTensorRoles = 14,  // TensorRoleRecord
  kArguments = 16,    // ArgumentsRecord
  kAllocations = 17,  // AllocationRecord
  kContexts = 21,     // ContextRecord
  kDeviceCalls = 18,  // DeviceCallRecord
  kDeviceWork = 19,   // DeviceWorkRecord
  kDeviceOps = 20,    // DeviceOpRecord
};

struct ChunkHeader {
  std::uint32_t magic;
  std::uint16_t kind;          // ChunkKind
  std::uint16_t record_bytes;  // 1 for byte chunks
  std::uint64_t size_bytes;    // header included, a multiple of kGranuleBytes
  std::uint32_t thread;        // ordinal of the owning thread; 0 = the recorder itself
  std::uint32_t sequence;      // n-th chunk of its kind and thread
  std::uint32_t generation;    // times this chunk was reused (policy ring); 0 for policy keep
  std::uint32_t reserved0;
  std::atomic<std::uint64_t> committed;  // records (or bytes) that are complete
  std::uint8_t reserved1[24];
};
static_assert(sizeof(ChunkHeader) == 64);

enum OpFlags : std::uint16_t {
  kFlagAsync = 1 << 0,        // RecordFunction::isAsync()
  kFlagOtherThread = 1 << 1,  // ended on another thread than it began on
  kFlagUnfinished = 1 << 2,   // still open when the recording ended; end = the recording's end
  kFlagPayloadCut = 1 << 3,   // inputs were cut to their bound
  kFlagInstant = 1 << 4,      // a moment that was marked, not something that took no time
  kFlagTraining = 1 << 5,     // call of a module in training mode
  kFlagEvaluation = 1 << 6,   // call of a module in evaluation mode; with neither the mode is not known
  kFlagEnteredBefore =
      1 << 7,  // a frame that was on the stack already; start = when its thread was first seen
};

// What an event is. Part of the format and of the numpy columns.
enum class EventKind : std::uint8_t {
  kOp = 0,       // RecordFunction other than user scopes
  kUser = 1,     // record_function, ProfilerStep#N, Optimizer.step#...
  kRuntime = 2,  // cudaLaunchKernel, ...
  kDriver = 3,   // cuLaunchKernel, ...
  kKernel = 4,
  kMemcpy = 5,
  kMemset = 6,
  kSync = 7,
  kPython = 8,
  kPythonC = 9,
  kModule = 10,
  kOverhead = 11,
  kSpan = 12,
  kAnnotation = 13,  // gpu_user_annotation
  kOther = 14,
};

// One RecordFunction. `end_ticks` is the commit word: 0 while the op is open, then written once.
struct OpRecord {
  std::uint64_t start_ticks;
  std::atomic<std::uint64_t> end_ticks;
  std::uint32_t name;  // string id of a name entry (name + overload name)
  std::uint8_t kind;   // EventKind
  std::uint8_t scope;  // at::RecordScope
  std::atomic<std::uint16_t> flags;
  std::int64_t sequence;         // autograd sequence number, -1 = none
  std::uint32_t forward_thread;  // RecordFunction::forwardThreadId(), 0 = none
  std::uint32_t end_thread;      // ordinal, set with kFlagOtherThread
  std::uint32_t payload;         // file offset / kPayloadAlignBytes, 0 = none
  std::uint32_t error;           // string id: type of the exception that ended it, 0 = none
};
static_assert(sizeof(OpRecord) == 48);

// A stretch of a Python function, or the call of a C function: from a call or resumption to the return, yield
// or raise after it. `end_ticks` as in OpRecord; with kFlagUnfinished it may be the last that is known of the
// frame.
struct FrameRecord {
  std::uint64_t start_ticks;
  std::atomic<std::uint64_t> end_ticks;
  std::uint32_t name;  // string id: qualified name + `file:line` of the definition
  std::uint8_t kind;   // EventKind: kPython or kPythonC
  std::uint8_t reserved;
  std::atomic<std::uint16_t> flags;  // OpFlags
};
static_assert(sizeof(FrameRecord) == 24);

// Followed by `name_bytes` + `overload_bytes` bytes of UTF-8 (as given: not validated), padded to 8.
struct StringEntry {
  std::uint32_t id;  // dense, from 1
  std::uint32_t name_bytes;
  std::uint32_t overload_bytes;
  std::uint32_t reserved;
};
static_assert(sizeof(StringEntry) == 16);

struct ThreadRecord {
  std::uint32_t ordinal;  // from 1
  std::uint32_t os_thread_id;
  std::atomic<std::uint64_t> torch_thread_id;  // RecordFunction::threadId(), 0 = not known
  std::uint64_t first_ticks;
  char name[40];  // NUL-terminated
};
static_assert(sizeof(ThreadRecord) == 64);

enum StepFlags : std::uint8_t {
  kStepPartial = 1 << 0,    // the capture began or ended inside it
  kStepInParent = 1 << 1,   // belongs to the context's span; else a root linked to it
  kStepHasNumber = 1 << 2,  // false for the whole-capture span
  kStepUnfinished = 1 << 3,
};
enum class StepPhase : std::uint8_t { kUnknown = 0, kTrain = 1, kEval = 2, kInfer = 3 };

// A step, with the OpenTelemetry context that was current when it began (zero = none).
struct StepRecord {
  std::uint64_t start_ticks;
  std::atomic<std::uint64_t> end_ticks;
  std::int64_t number;
  std::uint32_t thread;
  std::uint8_t phase;  // StepPhase
  std::uint8_t flags;  // StepFlags
  std::uint8_t context_trace_flags;
  std::uint8_t reserved0;
  std::uint8_t context_trace_id[16];
  std::uint8_t context_span_id[8];
  std::uint32_t links_payload;  // payload: n x {trace id 16, span id 8}
  std::uint32_t links_count;
};
static_assert(sizeof(StepRecord) == 64);

// A saved event of any origin (an imported trace, a filtered recording). Times are unix ns.
struct EventRecord {
  std::int64_t start_ns;
  std::int64_t end_ns;
  std::uint32_t name;
  std::uint32_t track;
  std::uint8_t kind;
  std::uint8_t scope;
  std::uint16_t flags;
  std::uint32_t forward_thread;
  std::int64_t sequence;
  std::int64_t correlation;
  std::uint32_t end_track;
  std::uint32_t payload;
  std::uint32_t error;  // as OpRecord::error
  std::uint32_t reserved;
};
static_assert(sizeof(EventRecord) == 64);

enum class TrackKind : std::uint8_t { kThread = 0, kStream = 1, kOther = 2 };

struct TrackRecord {
  std::uint32_t name;  // string id, 0 = none
  std::uint8_t kind;   // TrackKind
  std::uint8_t reserved0[3];
  std::int64_t process_id;
  std::int64_t thread_id;  // OS thread id, or stream
  std::uint64_t torch_thread_id;
  std::int32_t device;  // -1 = none
  std::int32_t context;
  std::uint8_t reserved1[24];
};
static_assert(sizeof(TrackRecord) == 64);

struct LinkRecord {
  std::uint64_t from;
  std::uint64_t to;
  std::uint32_t type;
  std::uint32_t reserved;
};
static_assert(sizeof(LinkRecord) == 24);

// What only kernels, copies, synchronizations and the calls that cause them have. `event` is the number of
// an event in the order of the file. Not known: -1, or NaN, or 0 in `grid` and `block`.
struct DeviceRecord {
  std::uint64_t event;
  std::int64_t external_id;  // of the op around the call
  std::int64_t stream;
  std::int64_t size_bytes;  // copied or set
  std::int64_t graph_id;
  std::int64_t graph_node_id;
  std::int64_t wait_correlation;  // synchronizations: of the call that recorded the event waited for
  std::int32_t wait_stream;
  std::int32_t wait_event;
  std::int32_t device;
  std::int32_t context;
  std::uint32_t grid[3];
  std::uint32_t block[3];
  std::int32_t registers;  // a thread
  std::int32_t shared_bytes;
  float blocks_per_sm;
  float warps_per_sm;
  float occupancy_percent;
  std::int32_t callback_id;  // CUPTI's or roctracer's number of the function called
  std::int32_t priority;
  std::uint32_t reserved;
};
static_assert(sizeof(DeviceRecord) == 128);

// What a capture writes of a device, as it arrives: in no order, and before it is known which rows belong
// together. A reader makes events, tracks of streams, DeviceRecords and links of it. Times are ticks.

// A call into a device's runtime or driver, on the thread that made it.
enum DeviceCallFlags : std::uint8_t {
  kOwnCall = 1U << 0U,  // of the recorder itself: neither it nor what it waited for is an event
};

struct DeviceCallRecord {
  std::uint64_t start_ticks;
  std::uint64_t end_ticks;
  std::int64_t correlation;  // also of the work that it launched; -1 = none
  std::uint32_t thread;      // ordinal
  std::uint32_t name;        // string id
  std::int32_t callback_id;  // as DeviceRecord::callback_id
  std::uint8_t kind;         // EventKind: kRuntime, kDriver or kOverhead
  std::uint8_t flags;        // DeviceCallFlags
  std::uint8_t reserved[2];
};
static_assert(sizeof(DeviceCallRecord) == 40);

// What a device did, or what was waited for. Not known: -1, or 0 in `grid`, `block` and `multiprocessors`.
struct DeviceWorkRecord {
  std::uint64_t start_ticks;
  std::uint64_t end_ticks;
  std::int64_t correlation;
  std::int64_t size_bytes;
  std::int64_t graph_node_id;
  std::int64_t graph_id;
  std::uint32_t name;
  std::int32_t device;
  std::int32_t context;
  std::int32_t stream;
  std::int32_t wait_stream;
  std::int32_t wait_event;
  std::uint32_t grid[3];
  std::uint16_t block[3];
  std::uint16_t multiprocessors;  // of the device
  std::int32_t registers;         // a thread
  std::int32_t shared_bytes;
  std::uint8_t kind;  // EventKind: kKernel, kMemcpy, kMemset or kSync
  std::uint8_t reserved[3];
};
static_assert(sizeof(DeviceWorkRecord) == 104);

// Which op was running on the thread that made the call with this correlation id.
struct DeviceOpRecord {
  std::int64_t correlation;
  std::uint32_t op;  // file offset of its OpRecord / kPayloadAlignBytes
  std::uint32_t reserved;
};
static_assert(sizeof(DeviceOpRecord) == 16);

// CounterRecord::event in a capture: the event of `track` that began at `time`.
inline constexpr std::int64_t kEventByStart = -2;

// A reading of a counter: at a moment, or over the time of an event. The overload of its name says what the
// value is: see counter_series.h.
struct CounterRecord {
  std::uint64_t time;   // ticks in a capture, unix ns in a saved recording
  std::int64_t event;   // as DeviceRecord::event, -1 = none
  std::uint32_t track;  // index in a saved recording, a thread's ordinal in a capture
  std::uint32_t name;   // string id; its overload names the series
  double value;
};
static_assert(sizeof(CounterRecord) == 32);

// What an allocator of a captured process did.
enum class AllocationAction : std::uint8_t {
  kAllocated = 0,
  kFreed = 1,
  kOutOfMemory = 2,      // a request that failed
  kSegmentReserved = 3,  // a caching allocator got memory from its device
  kSegmentReleased = 4,
};

// As it is captured. A reader finds the event it belongs to, the size of what was freed and the totals.
struct AllocationRecord {
  std::uint64_t time_ticks;
  std::uint64_t address;
  std::uint64_t size_bytes;  // as asked for; 0 where only the address is known
  std::int32_t device;       // -1 = not numbered
  std::uint8_t device_type;  // c10::DeviceType
  std::uint8_t action;       // AllocationAction
  std::uint16_t reserved;
};
static_assert(sizeof(AllocationRecord) == 32);

enum MemoryFlags : std::uint8_t {
  kMemoryFree = 1 << 0,
  kMemoryBeforeCapture = 1 << 1,  // a free of what was not allocated in this capture: its size is not known
  kMemoryOutOfMemory = 1 << 2,    // a request that failed; `size_bytes` was asked for
};

// An allocation, a free, or an allocation that failed.
struct MemoryRecord {
  std::uint64_t time;                  // as CounterRecord::time
  std::int64_t event;                  // as CounterRecord::event
  std::uint64_t address;               // 0 = not known
  std::int64_t size_bytes;             // negative: freed
  std::int64_t total_allocated_bytes;  // of the device, after it; -1 = not known
  std::int64_t total_reserved_bytes;
  std::uint32_t track;       // as CounterRecord::track
  std::int32_t device;       // -1 = not numbered
  std::uint8_t device_type;  // c10::DeviceType
  std::uint8_t flags;        // MemoryFlags
  std::uint8_t reserved[6];
};
static_assert(sizeof(MemoryRecord) == 64);

// What a tensor is to the program.
enum class TensorRole : std::uint8_t { kParameter = 1, kGradient = 2, kOptimizerState = 3, kBuffer = 4 };

// At a moment the program's own objects held a tensor in this role.
struct TensorRoleRecord {
  std::uint64_t time;        // as CounterRecord::time
  std::uint64_t address;     // of the first byte of its storage
  std::int64_t size_bytes;   // of its storage
  std::uint32_t name;        // string id: `encoder.weight`, of optimizer state with the key as its overload
  std::int32_t device;       // -1 = not numbered
  std::uint8_t device_type;  // c10::DeviceType
  std::uint8_t role;         // TensorRole
  std::uint16_t owner;       // number of the model or optimizer that holds it, the same for all its tensors
  std::uint8_t reserved[4];
};
static_assert(sizeof(TensorRoleRecord) == 40);

enum ContextFlags : std::uint8_t {
  kContextIsRoot = 1 << 0,  // the event itself is the span named, the root of its trace
};

// The OpenTelemetry span that an event, with all that it encloses, belongs under. In a capture the event is
// the innermost one of `track` at `time`.
struct ContextRecord {
  std::uint64_t time;   // as CounterRecord::time
  std::int64_t event;   // as CounterRecord::event
  std::uint32_t track;  // as CounterRecord::track
  std::uint8_t trace_flags;
  std::uint8_t flags;  // ContextFlags
  std::uint16_t reserved;
  std::uint8_t trace_id[16];
  std::uint8_t span_id[8];
  std::uint32_t links_payload;  // as StepRecord::links_payload
  std::uint32_t links_count;
};
static_assert(sizeof(ContextRecord) == 56);

// What a trace said of an event that nothing else here holds: a JSON object, at most kMaxArgumentsBytes long.
struct ArgumentsRecord {
  std::uint64_t event;  // as DeviceRecord::event
  std::uint32_t text;   // string id
  std::uint32_t reserved;
};
static_assert(sizeof(ArgumentsRecord) == 16);

static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

}  // namespace torchprof
