#include "monitoring/behaviour/behaviour_verdict.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/base/statistics.h"

namespace kintsugi::behaviour {
namespace {

std::string quantity(double value, bool time) {
  if (!time) return fmt::format("{:.4g}", value);
  if (value >= 1e9) return fmt::format("{:.3g} s", value / 1e9);
  if (value >= 1e6) return fmt::format("{:.3g} ms", value / 1e6);
  return fmt::format("{:.3g} us", value / 1e3);
}

void add_reasons(proto::Verdict& out, const StandingAlarm& alarm) {
  const Judged& judged = alarm.judged;
  const ObservationModel& model = *alarm.fitted.observations[alarm.observation].model;
  const std::string name = observation_name(alarm.about, alarm.observation);
  out.add_why(
      fmt::format("{} of the last {} executions have more {} than their inputs say, {} of them far more",
                  judged.recent.off(), judged.recent.seen(), name, judged.recent.far()));
  if (!judged.odd.empty()) {
    const Odd& last = judged.odd.back();
    std::string inputs;
    for (size_t k = 0; k < last.inputs.size(); ++k)
      inputs += fmt::format("{}{} {:.4g}", k == 0 ? "" : ", ",
                            alarm.about.inputs[alarm.fitted.features.kept[k]], last.inputs[k]);
    out.add_why(fmt::format("the last of them: {} where {} were expected ({})",
                            quantity(last.actual, alarm.observation == 0),
                            quantity(last.predicted, alarm.observation == 0), inputs));
    std::string beyond;
    for (const auto& input : last.beyond)
      beyond += fmt::format("{}{} ({:.0f} sigma)", beyond.empty() ? "" : ", ",
                            alarm.about.inputs[alarm.fitted.features.kept[input.input]], input.distance);
    if (!beyond.empty()) out.add_why("extrapolated in: " + beyond);
  }
  out.add_why(fmt::format("the model is of {} executions on {} servers, with an R2 of {:.2f} out of fold",
                          model.learnt_from(), alarm.servers, model.r2()));
}

}  // namespace

proto::Verdict behaviour_verdict(const StandingAlarm& alarm, TimePoint now) {
  const Judged& judged = alarm.judged;
  proto::Verdict out;
  out.set_kind(proto::Verdict::BEHAVIOUR);
  out.set_server(alarm.origin.name);
  out.set_server_id(alarm.origin.server_id);
  out.set_process(alarm.origin.process);
  out.set_process_kind(alarm.about.process_kind);
  out.set_region(alarm.about.region);
  out.set_file(alarm.about.file);
  out.set_line(alarm.about.line);
  out.set_function(alarm.about.function);
  out.set_since_ns(
      static_cast<uint64_t>(std::max<int64_t>(0, std::chrono::nanoseconds(now - *judged.since).count())));

  std::vector<double> probabilities;
  bool extrapolated = false;
  for (const Odd& odd : judged.odd) {
    probabilities.push_back(odd.probability);
    extrapolated = extrapolated || !odd.beyond.empty();
  }
  out.set_factor(judged.factor());
  out.set_probability(mean_of(probabilities));
  out.set_confidence(alarm.servers >= kComparable && !extrapolated ? proto::Verdict::LIKELY
                                                                   : proto::Verdict::UNSURE);

  add_reasons(out, alarm);
  return out;
}

}  // namespace kintsugi::behaviour
