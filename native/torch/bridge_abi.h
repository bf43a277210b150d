/* The contract between the recorder's core and the torch bridge: plain C, because the bridge is compiled
 * for one exact torch (at::RecordFunction has no stable ABI) while the core knows no torch at all.
 * The core hands the bridge a table of functions; linking by symbol would fail under RTLD_LOCAL. */
#ifndef TORCHPROF_BRIDGE_ABI_H
#define TORCHPROF_BRIDGE_ABI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TORCHPROF_BRIDGE_ABI_VERSION 4u
/* Captures that can record at the same time. */
#define TORCHPROF_CAPTURE_SLOTS 4u

/* What the core needs to know of an op that begins. Pointers need to live only for the call. */
typedef struct torchprof_op_start {
  const void* key;      /* address of the RecordFunction: identifies the op until its end */
  const char* name;     /* NUL-terminated, often a temporary */
  const char* overload; /* NUL-terminated, "" when none */
  int64_t sequence;     /* -1 = none */
  uint64_t torch_thread;
  uint64_t forward_thread; /* 0 = none */
  uint8_t scope;           /* at::RecordScope */
  uint8_t is_user;         /* USER_SCOPE */
  uint8_t inputs_cut;      /* inputs were cut to their bound */
  const uint8_t* inputs;   /* encoded inputs (docs/recording-format.md), NULL when none */
  size_t inputs_bytes;
} torchprof_op_start;

/* The values of torchprof_memory_event.action. */
#define TORCHPROF_MEMORY_ALLOCATED 0u
#define TORCHPROF_MEMORY_FREED 1u
#define TORCHPROF_MEMORY_OUT_OF_MEMORY 2u
#define TORCHPROF_MEMORY_SEGMENT_RESERVED 3u
#define TORCHPROF_MEMORY_SEGMENT_RELEASED 4u

typedef struct torchprof_memory_event {
  uint64_t address;    /* 0 for a request that failed */
  uint64_t size_bytes; /* as asked for; 0 where only the address is known */
  int32_t device;      /* -1 = not numbered */
  uint8_t device_type; /* c10::DeviceType */
  uint8_t action;
} torchprof_memory_event;

/* What counting needs to know of an op that begins: bits of count_start's flags. */
#define TORCHPROF_COUNT_USER 1u      /* USER_SCOPE */
#define TORCHPROF_COUNT_BACKWARD 2u  /* BACKWARD_FUNCTION */
#define TORCHPROF_COUNT_SEQUENCED 4u /* has an autograd sequence number */
#define TORCHPROF_COUNT_ASYNC 8u

typedef struct torchprof_core_table {
  uint32_t abi_version;
  uint32_t table_bytes;
  /* Both are safe from any thread at any time, never block, never throw. */
  void (*op_start)(uint32_t slot, const torchprof_op_start* op);
  void (*op_end)(uint32_t slot, const void* key, uint8_t is_async);
  /* True while the slot records: lets the bridge skip encoding inputs. */
  int (*slot_active)(uint32_t slot);
  /* As safe as op_start. */
  void (*memory_event)(uint32_t slot, const torchprof_memory_event* event);
  /* The calling thread's mark that it is inside an allocator that reports, for the bridge to set. It is the
   * core's because that has thread-local memory which is there until the very end of a thread. */
  uint8_t* (*allocator_mark)(void);
  /* An op that is only counted, beside what slots record of it. As safe as op_start; the same key and name.
   */
  void (*count_start)(const void* key, const char* name, uint8_t flags);
  void (*count_end)(const void* key, uint8_t is_async);
} torchprof_core_table;

/* Times a kind of device by events in its streams. Safe from any thread; never throw. */
typedef struct torchprof_device_events {
  /* Puts one into the calling thread's current stream, and says of which device that is. NULL: refused. */
  void* (*record)(int32_t* device);
  /* Waits for both, which must be of one device: the nanoseconds from one to the other, negative where that
   * was the later one, NaN when refused. */
  double (*elapsed_ns)(const void* from, const void* to);
  void (*release)(void* event);
  /* Waits for the work of the current device. Returns TORCHPROF_OK or why not. */
  int (*synchronize)(void);
} torchprof_device_events;

#define TORCHPROF_DEVICE_EVENTS_CUDA 0u
#define TORCHPROF_DEVICE_EVENTS_PRIVATEUSE1 1u

typedef struct torchprof_bridge_table {
  uint32_t abi_version;
  uint32_t table_bytes;
  const char* torch_version; /* the torch the bridge was compiled for */
  /* Registers global RecordFunction callbacks for a slot. flags: TORCHPROF_HOOK_*.
   * Returns TORCHPROF_OK or why not. */
  int (*enable)(uint32_t slot, uint32_t flags);
  /* Removes them. Idempotent. */
  int (*disable)(uint32_t slot);
  /* Reports what the CPU allocator does to a slot. Returns TORCHPROF_OK or why not. */
  int (*enable_memory)(uint32_t slot);
  /* Reports what the caching allocator of CUDA does to the slots that enable_memory named, and first what it
   * has reserved to this slot. Only once CUDA is initialized: before there is no allocator. */
  int (*enable_device_memory)(uint32_t slot);
  /* Idempotent. What is allocated already stays valid. */
  int (*disable_memory)(uint32_t slot);
  /* Registers the global RecordFunction callbacks of counting. Idempotent. Returns TORCHPROF_OK or why not.
   */
  int (*enable_counting)(void);
  /* Removes them. Idempotent. */
  int (*disable_counting)(void);
  /* Runs a small op `count` times on the calling thread: the nanoseconds that took, 0 when torch refused. */
  uint64_t (*time_ops)(uint32_t count);
  /* Of a kind of device, TORCHPROF_DEVICE_EVENTS_*; NULL where this torch has none for it. */
  const torchprof_device_events* (*device_events)(uint32_t kind);
} torchprof_bridge_table;

/* What a bridge's functions return. */
#define TORCHPROF_OK 0
#define TORCHPROF_NO_SUCH_SLOT 1
#define TORCHPROF_TORCH_REFUSED 2
#define TORCHPROF_TOO_MANY_ALLOCATORS 3
#define TORCHPROF_WITHOUT_CUDA 4

#define TORCHPROF_HOOK_INPUTS 1u     /* record shapes, dtypes, strides and concrete inputs */
#define TORCHPROF_HOOK_IDENTITIES 2u /* with inputs: also which tensors they are */

/* The one symbol a bridge exports. */
typedef const torchprof_bridge_table* (*torchprof_bridge_init_fn)(const torchprof_core_table* core);
#define TORCHPROF_BRIDGE_INIT_SYMBOL "torchprof_bridge_init"

#ifdef __cplusplus
}
#endif
#endif
