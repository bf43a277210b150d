// Names of every span and link attribute, once. semconv.py documents the same list; a test holds both equal.
#pragma once

#include <string_view>

namespace torchprof::attributes {

using Name = std::string_view;

// OpenTelemetry semantic conventions.
inline constexpr Name kThreadId = "thread.id";
inline constexpr Name kThreadName = "thread.name";
inline constexpr Name kCodeFunctionName = "code.function.name";
inline constexpr Name kCodeFilePath = "code.file.path";
inline constexpr Name kCodeLineNumber = "code.line.number";
inline constexpr Name kErrorType = "error.type";

// As OpenTelemetry's eBPF instrumentation names it.
inline constexpr Name kCudaDeviceIndex = "cuda.device.index";

inline constexpr Name kCudaStreamId = "cuda.stream.id";
inline constexpr Name kOriginalName = "torch.original_name";
inline constexpr Name kScope = "torch.scope";
inline constexpr Name kEventKind = "torch.event.kind";
inline constexpr Name kOpOverload = "torch.op.overload";
inline constexpr Name kModulePath = "torch.module.path";
inline constexpr Name kModuleTraining = "torch.module.training";
inline constexpr Name kSelfTimeNs = "torch.self_time_ns";
inline constexpr Name kSequenceNumber = "torch.sequence_number";
inline constexpr Name kForwardThreadId = "torch.forward_thread.id";
inline constexpr Name kAutogradThreadId = "torch.autograd_thread.id";
inline constexpr Name kAsync = "torch.async";
inline constexpr Name kEndThreadId = "torch.end_thread.id";
inline constexpr Name kUnfinished = "torch.unfinished";
inline constexpr Name kInputShapes = "torch.input.shapes";
inline constexpr Name kInputTypes = "torch.input.types";
inline constexpr Name kInputStrides = "torch.input.strides";
inline constexpr Name kInputValues = "torch.input.values";
inline constexpr Name kInputCut = "torch.input.cut";
inline constexpr Name kDeviceTimeNs = "torch.device.time_ns";
inline constexpr Name kKernelCount = "torch.kernel.count";
inline constexpr Name kKernelNames = "torch.kernel.names";
inline constexpr Name kKernelGrid = "torch.kernel.grid";
inline constexpr Name kKernelBlock = "torch.kernel.block";
inline constexpr Name kKernelRegisters = "torch.kernel.registers";
inline constexpr Name kKernelSharedMemoryBytes = "torch.kernel.shared_memory_bytes";
inline constexpr Name kMemcpySizeBytes = "torch.memcpy.size_bytes";
inline constexpr Name kMemcpyBytesPerSecond = "torch.memcpy.bytes_per_s";
inline constexpr Name kLaunchDelayNs = "torch.launch.delay_ns";
inline constexpr Name kLaunchQueueDepth = "torch.launch.queue_depth";
inline constexpr Name kGraphId = "torch.graph.id";
inline constexpr Name kGraphNodeId = "torch.graph.node_id";
inline constexpr Name kSyncStreamId = "torch.sync.stream_id";
inline constexpr Name kSyncEventId = "torch.sync.event_id";
inline constexpr Name kSyncCorrelationId = "torch.sync.correlation_id";
inline constexpr Name kCorrelationId = "torch.correlation_id";
inline constexpr Name kCorrelationIds = "torch.correlation_ids";
inline constexpr Name kMemoryAllocatedBytes = "torch.memory.allocated_bytes";
inline constexpr Name kMemoryFreedBytes = "torch.memory.freed_bytes";
inline constexpr Name kMemoryPeakBytes = "torch.memory.peak_bytes";
inline constexpr Name kMemoryFailedBytes = "torch.memory.failed_bytes";
inline constexpr Name kDeviceMemoryAllocatedBytes = "torch.device.memory.allocated_bytes";
inline constexpr Name kDeviceMemoryFreedBytes = "torch.device.memory.freed_bytes";
inline constexpr Name kDeviceMemoryPeakBytes = "torch.device.memory.peak_bytes";
inline constexpr Name kLinkType = "torch.link.type";
inline constexpr Name kFoldedCount = "torch.folded.count";
inline constexpr Name kFoldedTimeNs = "torch.folded.time_ns";
inline constexpr Name kFoldedDeviceTimeNs = "torch.folded.device_time_ns";
inline constexpr Name kFoldedNames = "torch.folded.names";
inline constexpr Name kStepNumber = "torch.step.number";
inline constexpr Name kStepPhase = "torch.step.phase";
inline constexpr Name kStepPartial = "torch.step.partial";
inline constexpr Name kStepCrossing = "torch.step.crossing";
// A name for each counter.
inline constexpr Name kCpuCounter = "torch.cpu.<counter>";
inline constexpr Name kCpuEstimated = "torch.cpu.estimated";

inline constexpr Name kAll[] = {
    kThreadId,
    kThreadName,
    kCodeFunctionName,
    kCodeFilePath,
    kCodeLineNumber,
    kErrorType,
    kCudaDeviceIndex,
    kCudaStreamId,
    kOriginalName,
    kScope,
    kEventKind,
    kOpOverload,
    kModulePath,
    kModuleTraining,
    kSelfTimeNs,
    kSequenceNumber,
    kForwardThreadId,
    kAutogradThreadId,
    kAsync,
    kEndThreadId,
    kUnfinished,
    kInputShapes,
    kInputTypes,
    kInputStrides,
    kInputValues,
    kInputCut,
    kDeviceTimeNs,
    kKernelCount,
    kKernelNames,
    kKernelGrid,
    kKernelBlock,
    kKernelRegisters,
    kKernelSharedMemoryBytes,
    kMemcpySizeBytes,
    kMemcpyBytesPerSecond,
    kLaunchDelayNs,
    kLaunchQueueDepth,
    kGraphId,
    kGraphNodeId,
    kSyncStreamId,
    kSyncEventId,
    kSyncCorrelationId,
    kCorrelationId,
    kCorrelationIds,
    kMemoryAllocatedBytes,
    kMemoryFreedBytes,
    kMemoryPeakBytes,
    kMemoryFailedBytes,
    kDeviceMemoryAllocatedBytes,
    kDeviceMemoryFreedBytes,
    kDeviceMemoryPeakBytes,
    kLinkType,
    kFoldedCount,
    kFoldedTimeNs,
    kFoldedDeviceTimeNs,
    kFoldedNames,
    kStepNumber,
    kStepPhase,
    kStepPartial,
    kStepCrossing,
    kCpuCounter,
    kCpuEstimated,
};

}  // namespace torchprof::attributes
