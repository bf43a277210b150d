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

#define TORCHPROF_BRIDGE_ABI_VERSION 1u
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
  uint8_t is_async;
  uint8_t inputs_cut;    /* inputs were cut to their bound */
  const uint8_t* inputs; /* encoded inputs (docs/recording-format.md), NULL when none */
  size_t inputs_bytes;
} torchprof_op_start;

typedef struct torchprof_core_table {
  uint32_t abi_version;
  uint32_t table_bytes;
  /* Both are safe from any thread at any time, never block, never throw. */
  void (*op_start)(uint32_t slot, const torchprof_op_start* op);
  void (*op_end)(uint32_t slot, const void* key, uint8_t is_async);
  /* True while the slot records: lets the bridge skip encoding inputs. */
  int (*slot_active)(uint32_t slot);
} torchprof_core_table;

typedef struct torchprof_bridge_table {
  uint32_t abi_version;
  uint32_t table_bytes;
  const char* torch_version; /* the torch the bridge was compiled for */
  /* Registers global RecordFunction callbacks for a slot. flags: TORCHPROF_HOOK_*.
   * Returns 0, or a non-zero code when torch refused. */
  int (*enable)(uint32_t slot, uint32_t flags);
  /* Removes them. Idempotent. */
  int (*disable)(uint32_t slot);
} torchprof_bridge_table;

#define TORCHPROF_HOOK_INPUTS 1u /* record shapes, dtypes, strides and concrete inputs */

/* The one symbol a bridge exports. */
typedef const torchprof_bridge_table* (*torchprof_bridge_init_fn)(const torchprof_core_table* core);
#define TORCHPROF_BRIDGE_INIT_SYMBOL "torchprof_bridge_init"

#ifdef __cplusplus
}
#endif
#endif
