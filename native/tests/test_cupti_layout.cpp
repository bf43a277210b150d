// Our offsets of CUPTI's records against NVIDIA's headers, where they are. Compiling it is the test.
#include <doctest/doctest.h>

#if __has_include(<cupti_activity.h>) && __has_include(<cuda.h>)
#include <cupti_activity.h>

#include <cstddef>

#include "sources/cupti/cupti_api.h"
#include "sources/cupti/record_layout.h"

namespace torchprof::cupti {
namespace {

// The oldest of each: newer ones only append.
static_assert(kernel::kRegisters == offsetof(CUpti_ActivityKernel9, registersPerThread));
static_assert(kernel::kStart == offsetof(CUpti_ActivityKernel9, start));
static_assert(kernel::kEnd == offsetof(CUpti_ActivityKernel9, end));
static_assert(kernel::kDevice == offsetof(CUpti_ActivityKernel9, deviceId));
static_assert(kernel::kContext == offsetof(CUpti_ActivityKernel9, contextId));
static_assert(kernel::kStream == offsetof(CUpti_ActivityKernel9, streamId));
static_assert(kernel::kGrid == offsetof(CUpti_ActivityKernel9, gridX));
static_assert(kernel::kBlock == offsetof(CUpti_ActivityKernel9, blockX));
static_assert(kernel::kStaticShared == offsetof(CUpti_ActivityKernel9, staticSharedMemory));
static_assert(kernel::kDynamicShared == offsetof(CUpti_ActivityKernel9, dynamicSharedMemory));
static_assert(kernel::kCorrelation == offsetof(CUpti_ActivityKernel9, correlationId));
static_assert(kernel::kName == offsetof(CUpti_ActivityKernel9, name));
static_assert(kernel::kGraphNode == offsetof(CUpti_ActivityKernel9, graphNodeId));
static_assert(kernel::kGraph == offsetof(CUpti_ActivityKernel9, graphId));

static_assert(memcpy_record::kCopyKind == offsetof(CUpti_ActivityMemcpy5, copyKind));
static_assert(memcpy_record::kSource == offsetof(CUpti_ActivityMemcpy5, srcKind));
static_assert(memcpy_record::kDestination == offsetof(CUpti_ActivityMemcpy5, dstKind));
static_assert(memcpy_record::kBytes == offsetof(CUpti_ActivityMemcpy5, bytes));
static_assert(memcpy_record::kStart == offsetof(CUpti_ActivityMemcpy5, start));
static_assert(memcpy_record::kEnd == offsetof(CUpti_ActivityMemcpy5, end));
static_assert(memcpy_record::kDevice == offsetof(CUpti_ActivityMemcpy5, deviceId));
static_assert(memcpy_record::kContext == offsetof(CUpti_ActivityMemcpy5, contextId));
static_assert(memcpy_record::kStream == offsetof(CUpti_ActivityMemcpy5, streamId));
static_assert(memcpy_record::kCorrelation == offsetof(CUpti_ActivityMemcpy5, correlationId));
static_assert(memcpy_record::kGraphNode == offsetof(CUpti_ActivityMemcpy5, graphNodeId));
static_assert(memcpy_record::kGraph == offsetof(CUpti_ActivityMemcpy5, graphId));

static_assert(memcpy_record::kCopyKind == offsetof(CUpti_ActivityMemcpyPtoP4, copyKind));
static_assert(memcpy_record::kSource == offsetof(CUpti_ActivityMemcpyPtoP4, srcKind));
static_assert(memcpy_record::kDestination == offsetof(CUpti_ActivityMemcpyPtoP4, dstKind));
static_assert(memcpy_record::kBytes == offsetof(CUpti_ActivityMemcpyPtoP4, bytes));
static_assert(memcpy_record::kStart == offsetof(CUpti_ActivityMemcpyPtoP4, start));
static_assert(memcpy_record::kEnd == offsetof(CUpti_ActivityMemcpyPtoP4, end));
static_assert(memcpy_record::kDevice == offsetof(CUpti_ActivityMemcpyPtoP4, deviceId));
static_assert(memcpy_record::kContext == offsetof(CUpti_ActivityMemcpyPtoP4, contextId));
static_assert(memcpy_record::kStream == offsetof(CUpti_ActivityMemcpyPtoP4, streamId));
static_assert(peer_copy::kCorrelation == offsetof(CUpti_ActivityMemcpyPtoP4, correlationId));
static_assert(peer_copy::kGraphNode == offsetof(CUpti_ActivityMemcpyPtoP4, graphNodeId));
static_assert(peer_copy::kGraph == offsetof(CUpti_ActivityMemcpyPtoP4, graphId));

static_assert(memset_record::kBytes == offsetof(CUpti_ActivityMemset4, bytes));
static_assert(memset_record::kStart == offsetof(CUpti_ActivityMemset4, start));
static_assert(memset_record::kEnd == offsetof(CUpti_ActivityMemset4, end));
static_assert(memset_record::kDevice == offsetof(CUpti_ActivityMemset4, deviceId));
static_assert(memset_record::kContext == offsetof(CUpti_ActivityMemset4, contextId));
static_assert(memset_record::kStream == offsetof(CUpti_ActivityMemset4, streamId));
static_assert(memset_record::kCorrelation == offsetof(CUpti_ActivityMemset4, correlationId));
static_assert(memset_record::kMemoryKind == offsetof(CUpti_ActivityMemset4, memoryKind));
static_assert(memset_record::kGraphNode == offsetof(CUpti_ActivityMemset4, graphNodeId));
static_assert(memset_record::kGraph == offsetof(CUpti_ActivityMemset4, graphId));

static_assert(api::kCallback == offsetof(CUpti_ActivityAPI, cbid));
static_assert(api::kStart == offsetof(CUpti_ActivityAPI, start));
static_assert(api::kEnd == offsetof(CUpti_ActivityAPI, end));
static_assert(api::kThread == offsetof(CUpti_ActivityAPI, threadId));
static_assert(api::kCorrelation == offsetof(CUpti_ActivityAPI, correlationId));

static_assert(synchronization::kType == offsetof(CUpti_ActivitySynchronization, type));
static_assert(synchronization::kStart == offsetof(CUpti_ActivitySynchronization, start));
static_assert(synchronization::kEnd == offsetof(CUpti_ActivitySynchronization, end));
static_assert(synchronization::kCorrelation == offsetof(CUpti_ActivitySynchronization, correlationId));
static_assert(synchronization::kContext == offsetof(CUpti_ActivitySynchronization, contextId));
static_assert(synchronization::kStream == offsetof(CUpti_ActivitySynchronization, streamId));
static_assert(synchronization::kEvent == offsetof(CUpti_ActivitySynchronization, cudaEventId));

static_assert(overhead::kOverheadKind == offsetof(CUpti_ActivityOverhead, overheadKind));
static_assert(overhead::kObjectKind == offsetof(CUpti_ActivityOverhead, objectKind));
static_assert(overhead::kThread == offsetof(CUpti_ActivityOverhead, objectId.pt.threadId));
static_assert(overhead::kStart == offsetof(CUpti_ActivityOverhead, start));
static_assert(overhead::kEnd == offsetof(CUpti_ActivityOverhead, end));

static_assert(external_correlation::kExternalKind ==
              offsetof(CUpti_ActivityExternalCorrelation, externalKind));
static_assert(external_correlation::kExternalId == offsetof(CUpti_ActivityExternalCorrelation, externalId));
static_assert(external_correlation::kCorrelation ==
              offsetof(CUpti_ActivityExternalCorrelation, correlationId));

static_assert(graph_trace::kCorrelation == offsetof(CUpti_ActivityGraphTrace, correlationId));
static_assert(graph_trace::kStart == offsetof(CUpti_ActivityGraphTrace, start));
static_assert(graph_trace::kEnd == offsetof(CUpti_ActivityGraphTrace, end));
static_assert(graph_trace::kDevice == offsetof(CUpti_ActivityGraphTrace, deviceId));
static_assert(graph_trace::kGraph == offsetof(CUpti_ActivityGraphTrace, graphId));
static_assert(graph_trace::kContext == offsetof(CUpti_ActivityGraphTrace, contextId));
static_assert(graph_trace::kStream == offsetof(CUpti_ActivityGraphTrace, streamId));

constexpr bool is(ActivityKind ours, CUpti_ActivityKind theirs) {
  return static_cast<std::uint32_t>(ours) == static_cast<std::uint32_t>(theirs);
}
static_assert(is(ActivityKind::kMemcpy, CUPTI_ACTIVITY_KIND_MEMCPY));
static_assert(is(ActivityKind::kMemset, CUPTI_ACTIVITY_KIND_MEMSET));
static_assert(is(ActivityKind::kDriver, CUPTI_ACTIVITY_KIND_DRIVER));
static_assert(is(ActivityKind::kRuntime, CUPTI_ACTIVITY_KIND_RUNTIME));
static_assert(is(ActivityKind::kConcurrentKernel, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
static_assert(is(ActivityKind::kOverhead, CUPTI_ACTIVITY_KIND_OVERHEAD));
static_assert(is(ActivityKind::kMemcpy2, CUPTI_ACTIVITY_KIND_MEMCPY2));
static_assert(is(ActivityKind::kSynchronization, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION));
static_assert(is(ActivityKind::kExternalCorrelation, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION));
static_assert(is(ActivityKind::kGraphTrace, CUPTI_ACTIVITY_KIND_GRAPH_TRACE));
static_assert(kObjectThread == CUPTI_ACTIVITY_OBJECT_THREAD);
static_assert(kExternalKindOfOps == CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM2);
static_assert(kNotCompatible == CUPTI_ERROR_NOT_COMPATIBLE);
static_assert(kNotInitialized == CUPTI_ERROR_NOT_INITIALIZED);
static_assert(kHardwareBusy == CUPTI_ERROR_HARDWARE_BUSY);
static_assert(kInsufficientPrivileges == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
static_assert(kMultipleSubscribers == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
static_assert(kDriverDomain == 1 && kRuntimeDomain == 2);  // CUpti_CallbackDomain is in another header

}  // namespace
}  // namespace torchprof::cupti
#endif
