// What a test tells the stand-in for libcupti to do: see stand_in_cupti.cpp. Functions of C, so that tests in
// Python reach them too.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

// Of what version it is, and with that how long its records are. Forgets all it was told.
void stand_in_reset(std::uint32_t version);
// From now on this function of CUPTI returns this result; 0 = works again.
void stand_in_fail(const char* function, int result);
// How often a function was called since the reset.
std::uint64_t stand_in_calls(const char* function);
// cuptiActivityFlushAll does not return while this is set.
void stand_in_hang(int hangs);
// Records that CUPTI had no room for, as it will say when asked next.
void stand_in_drop(std::size_t records);
// Asks for as many buffers and keeps them, until the reset or hold(0). Returns how many it was given.
std::size_t stand_in_hold_buffers(std::size_t count);

// A call of the runtime on this thread (callback id 211: cudaLaunchKernel), or with `is_driver` of the
// driver. Returns its correlation id.
std::uint32_t stand_in_call(std::uint32_t callback_id, int is_driver);
// Work that it launched. Times are ns of CLOCK_REALTIME; 0 stands for none.
void stand_in_kernel(const char* name, std::uint32_t correlation, std::uint32_t device, std::uint32_t stream,
                     std::uint64_t start_ns, std::uint64_t end_ns);
void stand_in_copy(std::uint32_t correlation, std::uint64_t size_bytes, int between_devices,
                   std::uint64_t start_ns, std::uint64_t end_ns);
void stand_in_memset(std::uint32_t correlation, std::uint64_t size_bytes, std::uint64_t start_ns,
                     std::uint64_t end_ns);
void stand_in_synchronize(std::uint32_t correlation, std::uint32_t type, std::uint64_t start_ns,
                          std::uint64_t end_ns);
void stand_in_graph(std::uint32_t correlation, std::uint32_t graph, std::uint64_t start_ns,
                    std::uint64_t end_ns);
void stand_in_overhead(std::uint32_t kind, std::uint64_t start_ns, std::uint64_t end_ns);
// A record of a kind that nobody asked for.
void stand_in_unknown();
// Ids that this thread has pushed.
std::size_t stand_in_pushed();
// Waits until all of that is in buffers, and these handed over if `complete`.
void stand_in_settle(int complete);
// The clock of the stand-in.
std::uint64_t stand_in_now_ns();

}  // extern "C"
