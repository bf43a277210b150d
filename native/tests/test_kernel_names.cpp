#include <doctest/doctest.h>

#include <string>

#include "spans/kernel_name.h"

using torchprof::kernel_name;

namespace {

TEST_CASE("a signature is reduced to its qualified name") {
  CHECK(
      kernel_name("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, "
                  "std::array<char*, 1ul> >(int, at::native::FillFunctor<float>, std::array<char*, 1ul>)") ==
      "at::native::vectorized_elementwise_kernel");
  CHECK(kernel_name("void at::native::(anonymous namespace)::softmax_warp<float, 8>(float*)") ==
        "at::native::softmax_warp");
  CHECK(kernel_name("void (anonymous namespace)::clamp_position_kernel<long>(long*)") ==
        "clamp_position_kernel");
  CHECK(kernel_name("std::enable_if<!(false), void>::type internal::gemvx::kernel<int, float>(int)") ==
        "internal::gemvx::kernel");
  CHECK(kernel_name("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)") ==
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
}

TEST_CASE("mangled names are demangled, and what only looks like one stays") {
  CHECK(kernel_name("_ZN2at6native3sumIfEEvPfi") == "at::native::sum");
  CHECK(kernel_name(
            "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb0ELb0ELb1ELi1EEEvPT0_PT_PfS4_S4_S4_"
            "diiiiiiib") == "aiter::add_rmsnorm_quant_kernel");
  CHECK(kernel_name("_ZN12_GLOBAL__N_14fillEPf") == "fill");
  CHECK(kernel_name("_Znothing") == "_Znothing");
  CHECK(kernel_name("_Z99f") == "_Z99f");
  CHECK(kernel_name("_Z99999999999999999999f") == "_Z99999999999999999999f");
  // A mangled name in a mangled name.
  CHECK(kernel_name("_Z5_Z1fvv") == "f");
}

TEST_CASE("a short mangled name that stands for gigabytes is not written out") {
  std::string doubled = "_Z1fI1pIiiE";
  for (const char* reference :
       {"S0_", "S1_", "S2_", "S3_", "S4_", "S5_", "S6_", "S7_", "S8_", "S9_", "SA_", "SB_", "SC_",
        "SD_", "SE_", "SF_", "SG_", "SH_", "SI_", "SJ_", "SK_", "SL_", "SM_", "SN_", "SO_"}) {
    doubled.append("S_I").append(reference).append(reference).append("E");
  }
  CHECK(kernel_name(doubled + "EvT_") == "f");
}

TEST_CASE("names of libraries stay readable") {
  constexpr const char* kLong =
      "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_warpgroupsize1x1x1_execute_kernel__5x_"
      "cublas";
  for (const char* name :
       {"ampere_sgemm_128x64_tn", "cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_32x32_128x2_tn_align8",
        kLong, "sm80_xmma_gemm_f16f16f16f16f32f32_f16f32_f32_nn_n",
        "volta_scudnn_winograd_128x128_ldg1_ldg4_relu_tile148t_nt_v1",
        "triton_red_fused_add_mean_mul_pow_rsqrt_1", "cudnn::bn_fw_tr_1C11_kernel_NCHW", "max_pool_2d",
        "layer_01"}) {
    CHECK(kernel_name(name) == name);
  }
}

TEST_CASE("what runs another kernel goes by that one's name") {
  CHECK(kernel_name("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x64_tn>(cutlass_80_x::Params)") ==
        "cutlass_80_tensorop_s1688gemm_128x64_tn");
  CHECK(kernel_name("void cutlass::device_kernel<cutlass::gemm::kernel::GemmUniversal<cute::tuple<int, int> "
                    "> >(int)") == "cutlass::gemm::kernel::GemmUniversal");
  CHECK(kernel_name("void Kernel<float, 4>(float*)") == "Kernel");
  CHECK(kernel_name("Kernel") == "Kernel");
}

TEST_CASE("hashes, addresses, long numbers and specializations are folded") {
  CHECK(kernel_name("triton_poi_fused_add_0d1d2de") == "triton_poi_fused_add");
  CHECK(kernel_name("attn_fwd_01d2d34d5c") == "attn_fwd");
  CHECK(kernel_name("attn_fwd_0d1d_123456abcdef") == "attn_fwd");
  CHECK(kernel_name("kernel_0x7f3a2b10c4d0") == "kernel");
  CHECK(kernel_name("rocprim::ROCPRIM_400200_NS::detail::trampoline_kernel") ==
        "rocprim::ROCPRIM_NS::detail::trampoline_kernel");
  CHECK(kernel_name("123456abcdef") == "123456abcdef");  // nothing else left
}

TEST_CASE("names are bounded, and short names stay") {
  CHECK(kernel_name(std::string(5000, 'x')) == std::string(255, 'x'));
  CHECK(kernel_name("").empty());
  for (const char* name :
       {"operator()", "f<", ">f", "a b<c>", "(anonymous namespace)", " ", "f(g", "<x>::f "}) {
    CHECK(kernel_name(kernel_name(name)) == kernel_name(name));
  }
}

}  // namespace
