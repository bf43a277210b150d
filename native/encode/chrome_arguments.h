// The arguments of the events of a trace, by their kind.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/recording.h"
#include "core/tree.h"
#include "encode/chrome_ids.h"
#include "encode/chrome_layout.h"
#include "encode/chrome_modules.h"
#include "encode/chrome_text.h"
#include "encode/chrome_tracks.h"

namespace torchprof {

// Writes `"name":value` pairs into an object.
class ArgumentList {
 public:
  explicit ArgumentList(ChromeText& text) : text_(text) { text_.raw(",\"args\":{"); }

  // `quoted_name` has its quotes and colon: `"Ev Idx":`.
  ChromeText& next(std::string_view quoted_name) {
    if (!is_first_) text_.raw(",");
    is_first_ = false;
    text_.raw(quoted_name);
    return text_;
  }
  void integer(std::string_view quoted_name, std::int64_t value) { next(quoted_name).integer(value); }
  void integer_if_known(std::string_view quoted_name, std::int64_t value) {
    if (value >= 0) integer(quoted_name, value);
  }
  void end() { text_.raw("}"); }

 private:
  ChromeText& text_;
  bool is_first_ = true;
};

class ChromeArguments {
 public:
  // `with_call_stacks`: ops have the functions around them as text too, as traces had before functions were
  // events, and as TensorBoard's plugin still wants them.
  ChromeArguments(const Recording& recording, const ChromeLayout& layout, const ChromeTracks& tracks,
                  const Tree& tree, const ModuleCalls& modules, const ExternalIds& external_ids,
                  std::span<const float> occupancy_percent, bool with_call_stacks)
      : recording_(recording),
        layout_(layout),
        tracks_(tracks),
        tree_(tree),
        modules_(modules),
        external_ids_(external_ids),
        occupancy_percent_(occupancy_percent),
        with_call_stacks_(with_call_stacks && has_functions(recording)) {}

  // Whether it is what CUPTI's range profiler measured a kernel's counters over. To be asked, and written,
  // with rising rows.
  [[nodiscard]] bool is_counted_range(std::uint64_t row);
  // `name_is_intact`: whether the name could be written as it is.
  void write(ChromeText& text, std::uint64_t row, bool name_is_intact);

 private:
  [[nodiscard]] bool has_counters(std::uint64_t row);
  void write_op(ArgumentList& arguments, std::uint64_t row) const;
  void write_inputs(ArgumentList& arguments, std::uint64_t row) const;
  void write_call_stack(ArgumentList& arguments, std::uint64_t row) const;
  void write_python(ArgumentList& arguments, std::uint64_t row) const;
  void write_call(ArgumentList& arguments, std::uint64_t row) const;
  void write_work(ArgumentList& arguments, std::uint64_t row) const;
  void write_sync(ArgumentList& arguments, std::uint64_t row) const;
  void write_counters(ArgumentList& arguments, std::uint64_t row);
  void write_counted(ArgumentList& arguments, std::string_view quoted_name, std::string_view series,
                     std::span<const CounterRecord* const> counters) const;
  void write_counter(ChromeText& text, const CounterRecord& counter) const;
  void write_others(ArgumentList& arguments, std::uint64_t row);
  [[nodiscard]] float occupancy_percent() const;
  void write_placement(ArgumentList& arguments, std::uint64_t row) const;
  [[nodiscard]] std::int64_t correlation(std::uint64_t row) const;
  [[nodiscard]] static bool has_functions(const Recording& recording);
  void advance(std::uint64_t row);

  const Recording& recording_;
  const ChromeLayout& layout_;
  const ChromeTracks& tracks_;
  const Tree& tree_;
  const ModuleCalls& modules_;
  const ExternalIds& external_ids_;
  const std::span<const float> occupancy_percent_;
  const bool with_call_stacks_;
  std::size_t next_device_ = 0;
  const DeviceRecord* device_ = nullptr;  // of the current row, nullptr = none
  std::vector<const CounterRecord*> counters_ = counters_of_events();
  std::size_t next_counter_ = 0;
  std::size_t next_other_ = 0;

  [[nodiscard]] std::vector<const CounterRecord*> counters_of_events() const;
};

}  // namespace torchprof
