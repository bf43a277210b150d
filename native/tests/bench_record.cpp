// What recording or counting one op costs its thread: ns per start+end pair, beside the cost of the two clock
// readings that any recorder of start and end must pay. Run on a quiet machine:
//   cmake --build <dir> --target bench_record && <dir>/native/tests/bench_record
#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "core/aggregate/op_aggregator.h"
#include "core/capture.h"
#include "core/clock.h"
#include "core/op_hooks.h"

namespace {

using torchprof::core_table;

constexpr int kOps = 1'000'000;
constexpr int kRuns = 9;
constexpr std::uint64_t kCapBytes = 256ULL << 20U;

template <typename Body>
double median_ns(Body body) {
  std::vector<double> runs;
  runs.reserve(kRuns);
  for (int run = 0; run < kRuns; ++run) {
    runs.push_back(body());
  }
  std::sort(runs.begin(), runs.end());
  return runs[runs.size() / 2];
}

template <typename Loop>
double time_ns_per_op(Loop loop) {
  const auto begin = std::chrono::steady_clock::now();
  loop();
  const std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - begin;
  return elapsed.count() / kOps;
}

double bare_clock_ns() {
  volatile std::uint64_t sink = 0;
  return time_ns_per_op([&] {
    for (int i = 0; i < kOps; ++i) {
      sink = torchprof::ticks();
      sink = torchprof::ticks();
    }
  });
}

// Of a small model's ops.
const std::array<std::string, 6> names{"aten::addmm", "aten::t",    "aten::transpose",
                                       "aten::relu",  "aten::view", "aten::_scaled_dot_product_attention"};

double record_ns(const std::string& path, std::size_t inputs_bytes) {
  const std::vector<std::uint8_t> inputs(inputs_bytes, 1);
  torchprof::Capture capture(path, kCapBytes);
  const auto slot = static_cast<std::uint32_t>(capture.start());
  const auto* table = &core_table();
  const double ns = time_ns_per_op([&] {
    torchprof_op_start op{};
    op.overload = "";
    op.sequence = -1;
    op.torch_thread = 1;
    op.inputs = inputs.empty() ? nullptr : inputs.data();
    op.inputs_bytes = inputs.size();
    for (int i = 0; i < kOps; ++i) {
      op.key = names.data();
      op.name = names[static_cast<std::size_t>(i) % names.size()].c_str();
      table->op_start(slot, &op);
      table->op_end(slot, op.key, 0);
    }
  });
  capture.stop();
  if (capture.recorded() != kOps) {
    std::printf("  only %llu of %d ops were recorded\n", static_cast<unsigned long long>(capture.recorded()),
                kOps);
  }
  return ns;
}

double count_ns(bool with_durations) {
  torchprof::OpAggregator counts(names.size(), with_durations);
  counts.start();
  counts.set_weight(1);
  const auto* table = &core_table();
  const double ns = time_ns_per_op([&] {
    for (int i = 0; i < kOps; ++i) {
      table->count_start(names.data(), names[static_cast<std::size_t>(i) % names.size()].c_str(),
                         TORCHPROF_COUNT_SEQUENCED);
      table->count_end(names.data(), 0);
    }
  });
  if (counts.counted() != kOps) {
    std::printf("  only %llu of %d ops were counted\n", static_cast<unsigned long long>(counts.counted()),
                kOps);
  }
  return ns;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string path = argc > 1 ? argv[1] : "";
  const double clock_ns = median_ns(bare_clock_ns);
  std::printf("two clock readings     %6.1f ns\n", clock_ns);
  const double memory_ns = median_ns([] { return record_ns("", 0); });
  std::printf("op, in memory          %6.1f ns (%+.1f)\n", memory_ns, memory_ns - clock_ns);
  const double inputs_ns = median_ns([] { return record_ns("", 64); });
  std::printf("op, 64 bytes of inputs %6.1f ns (%+.1f)\n", inputs_ns, inputs_ns - clock_ns);
  const double counted_ns = median_ns([] { return count_ns(false); });
  std::printf("op, counted            %6.1f ns (%+.1f)\n", counted_ns, counted_ns - clock_ns);
  const double durations_ns = median_ns([] { return count_ns(true); });
  std::printf("op, with histograms    %6.1f ns (%+.1f)\n", durations_ns, durations_ns - clock_ns);
  if (!path.empty()) {
    const double file_ns = median_ns([&] { return record_ns(path, 0); });
    std::printf("op, in a file          %6.1f ns (%+.1f)\n", file_ns, file_ns - clock_ns);
  }
  return 0;
}
