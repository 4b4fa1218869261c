#include "monitoring/sight/report_samples.h"

#include <algorithm>

namespace kintsugi::sight {

void ReportSamples::tell(proto::SightReport& report) {
  sampling_ = sampled_;
  if (samples_of_.empty()) return;
  size_t told_count = 0;
  for (const Event& event : recorder_.recent_events(1024)) {
    const TimePoint ended = event.entered + event.duration;
    if (ended <= sampled_ || told_count >= most_) break;
    sampling_ = std::max(sampling_, ended);
    const bool wanted = std::any_of(samples_of_.begin(), samples_of_.end(), [&](const std::string& name) {
      return name == event.site->name || name == "*";
    });
    if (!wanted) continue;
    ++told_count;
    proto::SightSample& told = *report.add_samples();
    told.set_path(event.path);
    told.set_duration_ns(static_cast<uint64_t>(std::max<int64_t>(0, event.duration.count())));
    told.set_self_ns(static_cast<uint64_t>(std::max<int64_t>(0, event.self.count())));
    for (size_t i = 0; i < event.input_count; ++i)
      told.add_inputs(event.inputs[i]);
    for (size_t i = 0; i < kMaxOutputs && !event.site->outputs[i].empty(); ++i)
      told.add_outputs(event.outputs[i]);
    told.set_code(static_cast<uint32_t>(event.code));
  }
}

void ReportSamples::delivered(const proto::SightReportAnswer& answer) {
  constexpr int kMostNames = 64;
  sampled_ = sampling_;
  samples_of_.assign(answer.samples_of().begin(),
                     answer.samples_of().begin() + std::min(answer.samples_of_size(), kMostNames));
}

}  // namespace kintsugi::sight
