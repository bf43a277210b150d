// Which calls are recorded: all of the runtime but those that are made all the time and tell nothing, and of
// the driver only launches, as the runtime's own calls go through it too. Numbers of calls are never given
// out twice; their names in tests/test_cupti_oracle.cpp are libcupti's.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace torchprof::cupti {

inline constexpr std::array<std::uint32_t, 19> kNoisyRuntimeCalls{
    10,   // cudaGetLastError
    11,   // cudaPeekAtLastError
    16,   // cudaSetDevice
    17,   // cudaGetDevice
    133,  // cudaEventCreate
    134,  // cudaEventCreateWithFlags
    136,  // cudaEventDestroy
    200,  // cudaDeviceGetAttribute
    317,  // cudaStreamIsCapturing
    318,  // cudaStreamIsCapturing_ptsz
    324,  // cudaStreamGetCaptureInfo
    325,  // cudaStreamGetCaptureInfo_ptsz
    327,  // cudaThreadExchangeStreamCaptureMode
    409,  // cudaStreamGetCaptureInfo_v2
    410,  // cudaStreamGetCaptureInfo_v2_ptsz
    461,  // cudaStreamGetCaptureInfo, as of CUDA 12.3
    462,  // cudaStreamGetCaptureInfo_ptsz, as of CUDA 12.3
    502,  // __cudaPushCallConfiguration
    503,  // __cudaPopCallConfiguration
};

inline constexpr std::array<std::uint32_t, 9> kDriverLaunches{
    307,  // cuLaunchKernel
    442,  // cuLaunchKernel_ptsz
    477,  // cuLaunchCooperativeKernel
    478,  // cuLaunchCooperativeKernel_ptsz
    480,  // cuLaunchCooperativeKernelMultiDevice
    514,  // cuGraphLaunch
    515,  // cuGraphLaunch_ptsz
    652,  // cuLaunchKernelEx
    653,  // cuLaunchKernelEx_ptsz
};

[[nodiscard]] inline bool is_noise(std::uint32_t runtime_call) noexcept {
  return std::binary_search(kNoisyRuntimeCalls.begin(), kNoisyRuntimeCalls.end(), runtime_call);
}
[[nodiscard]] inline bool is_driver_launch(std::uint32_t driver_call) noexcept {
  return std::binary_search(kDriverLaunches.begin(), kDriverLaunches.end(), driver_call);
}

}  // namespace torchprof::cupti
