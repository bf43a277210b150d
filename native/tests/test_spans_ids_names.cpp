#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "spans/ids.h"
#include "spans/span_name.h"
#include "spans/utf8.h"

using namespace torchprof;

TEST_CASE("span ids of a capture are distinct and never zero") {
  constexpr std::uint64_t kThreads = 20;
  constexpr std::uint64_t kEvents = 500'000;
  const CaptureIdentity capture{0x1234567890abcdef, 1'700'000'000'000'000'000};
  std::vector<SpanId> ids;
  ids.reserve(kThreads * kEvents);
  for (std::uint64_t thread = 0; thread < kThreads; ++thread) {
    const std::uint64_t seed = thread_seed(capture, thread);
    for (std::uint64_t index = 0; index < kEvents; ++index) ids.push_back(event_span_id(seed, index));
  }
  std::sort(ids.begin(), ids.end());
  CHECK(ids.front() != 0);
  CHECK(std::adjacent_find(ids.begin(), ids.end()) == ids.end());
}

TEST_CASE("ids of a step follow from its identity alone") {
  const StepIdentity step{"run", 0, 3, 12};
  CHECK(step_trace_id(step) == step_trace_id(StepIdentity{std::string("run"), 0, 3, 12}));
  CHECK(step_span_id(step) == step_span_id(StepIdentity{std::string("run"), 0, 3, 12}));
  CHECK(step_trace_id(step).valid());

  std::vector<SpanId> ids;
  for (const char* run :
       {"run", "run2", "", "a-run-id-of-more-than-eight-bytes", "a-run-id-of-more-than-eight-byte"}) {
    for (std::uint64_t restart = 0; restart < 4; ++restart) {
      for (std::uint64_t rank = 0; rank < 16; ++rank) {
        for (std::int64_t number = -1; number < 64; ++number) {
          ids.push_back(step_span_id({run, restart, rank, number}));
          ids.push_back(step_trace_id({run, restart, rank, number}).low);
          ids.push_back(step_trace_id({run, restart, rank, number}).high);
        }
      }
    }
  }
  std::sort(ids.begin(), ids.end());
  CHECK(std::adjacent_find(ids.begin(), ids.end()) == ids.end());
}

TEST_CASE("captures of one process have ids of their own") {
  const CaptureIdentity first{7, 1000};
  const CaptureIdentity second{7, 2000};
  CHECK(event_span_id(thread_seed(first, 0), 0) != event_span_id(thread_seed(second, 0), 0));
  CHECK(capture_span_reference(first).span != capture_span_reference(second).span);
}

TEST_CASE("ids are written big endian") {
  std::uint8_t bytes[8];
  write_big_endian(0x0102030405060708, bytes);
  CHECK(bytes[0] == 1);
  CHECK(bytes[7] == 8);
  CHECK(read_big_endian(bytes) == 0x0102030405060708);
}

TEST_CASE("text becomes valid UTF-8 and loses nothing") {
  CHECK(clean_utf8("añ√😀") == "añ√😀");
  CHECK(clean_utf8(std::string_view("a\0b", 3)) == "a\\x00b");
  CHECK(clean_utf8("tab\tdel\x7f") == "tab\\x09del\\x7f");
  CHECK(clean_utf8("\xed\xa0\x80") == "\\xed\\xa0\\x80");           // lone surrogate
  CHECK(clean_utf8("\xc0\xaf") == "\\xc0\\xaf");                    // overlong
  CHECK(clean_utf8("\xf4\x90\x80\x80") == "\\xf4\\x90\\x80\\x80");  // beyond U+10FFFF
  CHECK(clean_utf8("x\xe2\x82") == "x\\xe2\\x82");                  // cut off
  CHECK_FALSE(is_clean_utf8("\xff"));
  CHECK_FALSE(is_clean_utf8("a\nb"));
  CHECK(is_clean_utf8("a\"b\\c"));
  CHECK(cut_to_bytes("aé", 2) == "a");
  CHECK(cut_to_characters("éééé", 3) == "ééé");
}

TEST_CASE("names of host spans are of few kinds") {
  const SpanName step = host_span_name("ProfilerStep#12");
  CHECK(step.text == "torch.step");
  CHECK(step.original == "ProfilerStep#12");
  CHECK(step.step_number == 12);
  CHECK(host_span_name("ProfilerStep#12x").text == "ProfilerStep#12x");
  CHECK(host_span_name("ProfilerStep#99999999999999999999").text == "ProfilerStep#99999999999999999999");
  CHECK(host_span_name("Torch-Compiled Region: 3/1").text == "Torch-Compiled Region");
  CHECK(host_span_name("## Call CompiledFxGraph fq7nl4cwnsb5mgzfhxqj2gqtsxmcxncc6xr5lnbgnlw3nqqaxyzd ##")
            .text == "## Call CompiledFxGraph ##");
  CHECK(host_span_name("graph 0123456789abcdef0123").text == "graph");
  CHECK(host_span_name("0123456789abcdef0123").text == "0123456789abcdef0123");  // nothing else left

  const SpanName plain = host_span_name("Optimizer.step#SGD.step");
  CHECK(plain.text == "Optimizer.step#SGD.step");
  CHECK(plain.original.empty());
  CHECK(host_span_name("").text == "unnamed");

  const SpanName text = host_span_name(std::string(300, 'x') + "\xff");
  CHECK(text.text == std::string(255, 'x'));
  CHECK(text.original == std::string(300, 'x') + "\\xff");
  CHECK(host_span_name(std::string(5000, 'x')).original.size() == 2047);
}

TEST_CASE("kernels go by their qualified function name") {
  const auto name = [](const char* recorded) { return device_span_name(recorded, EventKind::kKernel).text; };
  CHECK(name("void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>, "
             "std::array<char*, 1ul> "
             ">(int, at::native::FillFunctor<float>, std::array<char*, 1ul>)") ==
        "at::native::vectorized_elementwise_kernel");
  CHECK(name("void at::native::(anonymous namespace)::softmax_warp<float, 8>(float*)") ==
        "at::native::softmax_warp");
  CHECK(name("_ZN2at6native3sumIfEEvPfi") == "at::native::sum");
  CHECK(name("ampere_sgemm_128x64_tn") == "ampere_sgemm_128x64_tn");
  CHECK(name("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)") ==
        "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
  CHECK(name("_Znot mangled") == "mangled");
  CHECK(device_span_name("Memcpy HtoD (Pageable -> Device)", EventKind::kMemcpy).text == "Memcpy HtoD");
  CHECK(device_span_name("Memcpy HtoD (Pageable -> Device)", EventKind::kMemcpy).original ==
        "Memcpy HtoD (Pageable -> Device)");
}

TEST_CASE("different recorded names may share a text id") {
  StringPool strings;
  const std::uint32_t first = strings.add("ProfilerStep#1");
  const std::uint32_t second = strings.add("ProfilerStep#2");
  SpanNames names(strings);
  const std::uint32_t a = names.index_of(first, EventKind::kUser);
  const std::uint32_t b = names.index_of(second, EventKind::kUser);
  CHECK(a != b);
  CHECK(names.text_id(a) == names.text_id(b));
  CHECK(names.index_of(first, EventKind::kUser) == a);
  CHECK(names[b].step_number == 2);
}
