#include "monitoring/behaviour/detector.h"

#include <algorithm>
#include <cmath>

#include "common/base/hash.h"
#include "common/base/statistics.h"

namespace kintsugi::behaviour {
namespace {

/// Evidence that is kept of one observation on one server.
constexpr size_t kOddKept = 20;
/// Servers that differ from the others by less than this factor (log2) share one model as they are.
constexpr double kSameSpeed = 0.05;
/// From so many servers on, a change that most of them show is none of one server's.
constexpr size_t kComparable = 3;
constexpr size_t kWellNeeded = 2;

uint64_t key_of(const Module& module) {
  return mix_bits(hash_name(module.process_kind) ^ mix_bits(module.role_path));
}

std::string name_of(const Module& module, size_t observation) {
  return observation == 0 ? "self time" : module.outputs[observation - 1];
}

/// Executions are kept by the octave of this: their bytes, where that is an input, else the first input.
double size_of(const Module& module, const std::vector<double>& inputs) {
  for (size_t f = 0; f < inputs.size(); ++f)
    if (module.inputs[f].find("bytes") != std::string::npos) return inputs[f];
  return inputs.empty() ? 1 : inputs.front();
}

double log_ratio(double actual, double predicted) {
  return actual > 0 && predicted > 0 ? std::log2(actual / predicted) : 0;
}

std::string quantity(double value, bool time) {
  if (!time) return fmt::format("{:.4g}", value);
  if (value >= 1e9) return fmt::format("{:.3g} s", value / 1e9);
  if (value >= 1e6) return fmt::format("{:.3g} ms", value / 1e6);
  return fmt::format("{:.3g} us", value / 1e3);
}

}  // namespace

bool Detector::OnServer::alarmed() const {
  return std::any_of(judged.begin(), judged.end(), [](const Judged& j) { return j.since.has_value(); });
}

double Detector::Judged::factor() const {
  std::vector<double> factors;
  for (const Odd& each : odd)
    if (each.predicted > 0) factors.push_back(each.actual / each.predicted);
  return median_of(factors);
}

void Detector::add(const Origin& origin, const Module& module,
                   std::span<const proto::SightSample* const> samples, TimePoint now) {
  const uint64_t key = key_of(module);
  auto found = modules_.find(key);
  if (found == modules_.end()) {
    if (modules_.size() >= settings_.most_modules) return;
    found = modules_.emplace(key, Known{.about = module}).first;
  }
  Known& known = found->second;
  if (known.about.inputs != module.inputs || known.about.outputs != module.outputs) {
    known = Known{.about = module};  // another build measures something else
  }
  auto server = known.servers.find(origin.process);
  if (server == known.servers.end()) {
    if (known.servers.size() >= settings_.most_servers) return;
    OnServer fresh{.origin = origin,
                   .reservoir = Reservoir(settings_.reservoir, mix_bits(key ^ origin.process))};
    fresh.judged.resize(1 + module.outputs.size());
    server = known.servers.emplace(origin.process, std::move(fresh)).first;
  }
  OnServer& on = server->second;
  on.seen = now;
  const auto finite = [](const std::vector<double>& values) {
    return std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
  };
  for (const proto::SightSample* sample : samples) {
    if (sample->code() != 0 || static_cast<size_t>(sample->inputs_size()) != module.inputs.size() ||
        static_cast<size_t>(sample->outputs_size()) != module.outputs.size())
      continue;
    Execution execution{.inputs = {sample->inputs().begin(), sample->inputs().end()},
                        .observed = {static_cast<double>(std::max<uint64_t>(1, sample->self_ns()))}};
    execution.observed.insert(execution.observed.end(), sample->outputs().begin(), sample->outputs().end());
    if (!finite(execution.inputs) || !finite(execution.observed)) continue;
    if (known.fitted) judge(known, on, execution, now);
    // What is odd now must not become what is normal.
    if (!on.alarmed()) on.reservoir.add(size_of(module, execution.inputs), std::move(execution));
  }
}

std::vector<double> Detector::kept_inputs(const Known& known, const Execution& execution) const {
  std::vector<double> inputs;
  for (size_t f : known.fitted->features.kept)
    inputs.push_back(execution.inputs[f]);
  return inputs;
}

void Detector::judge(Known& known, OnServer& server, const Execution& execution, TimePoint now) {
  const auto inputs = kept_inputs(known, execution);
  for (size_t o = 0; o < known.fitted->observations.size(); ++o) {
    auto& observation = known.fitted->observations[o];
    if (!observation.model || !observation.model->usable()) continue;
    const auto factor = observation.factors.find(server.origin.name);
    const double slower = factor != observation.factors.end() ? factor->second : 1;
    const Judgement judgement = observation.model->judge(inputs, execution.observed[o], slower);
    if (!judgement.known) continue;
    ++probabilities_[std::min<size_t>(9, static_cast<size_t>(judgement.probability * 10))];
    Judged& judged = server.judged[o];
    const bool far = observation.model->is_far(judgement), off = far || observation.model->is_off(judgement);
    if (off) {
      if (judged.recent.off() == 0) judged.first_odd = now;
      judged.odd.push_back({.actual = execution.observed[o],
                            .predicted = judgement.predicted,
                            .probability = judgement.probability,
                            .inputs = inputs,
                            .beyond = judgement.extrapolated});
      if (judged.odd.size() > kOddKept) judged.odd.pop_front();
    }
    judged.recent.add(far, off);
    if (server.alarmed() || observation.deviation <= 0) continue;
    const double residual = log_ratio(execution.observed[o], judgement.predicted) / observation.deviation;
    if (auto region = known.watches[o]->add(inputs, execution.observed[o], residual, server.origin.process)) {
      observation.model =
          observation.model->with_region(region->input, region->low, region->high, region->samples);
      for (auto& [process, other] : known.servers)
        if (!other.judged[o].since) other.judged[o] = {};
    }
  }
}

std::optional<Detector::FitJob> Detector::due(TimePoint now) {
  forget(now);
  uint64_t chosen = 0;
  const Known* oldest = nullptr;
  for (auto& [key, known] : modules_) {
    if (known.fitting || (known.fitted && now - known.fitted_at < settings_.refit_every)) continue;
    size_t samples = 0;
    for (const auto& [process, server] : known.servers)
      samples += server.reservoir.size();
    if (samples < settings_.least_samples) continue;
    const auto age = [](const Known& k) { return k.fitted ? k.fitted_at : TimePoint::min(); };
    if (oldest == nullptr || age(known) < age(*oldest)) {
      oldest = &known;
      chosen = key;
    }
  }
  if (oldest == nullptr) return std::nullopt;
  modules_.at(chosen).fitting = true;

  FitJob job{.module = chosen, .about = oldest->about, .settings = settings_};
  job.inputs.resize(oldest->about.inputs.size());
  job.observed.resize(1 + oldest->about.outputs.size());
  const size_t each = std::max<size_t>(1, settings_.most_samples / oldest->servers.size());
  for (const auto& [process, server] : oldest->servers) {
    const auto& executions = server.reservoir.executions();
    const size_t taken = std::min(each, executions.size());
    for (size_t i = 0; i < taken; ++i) {
      const Execution& execution = executions[i * executions.size() / taken];
      for (size_t f = 0; f < job.inputs.size(); ++f)
        job.inputs[f].push_back(execution.inputs[f]);
      for (size_t o = 0; o < job.observed.size(); ++o)
        job.observed[o].push_back(execution.observed[o]);
      job.server_of.push_back(job.servers.size());
    }
    job.servers.push_back(server.origin.name);
  }
  return job;
}

Detector::Fitted Detector::fit(const FitJob& job) {
  Fitted out{.module = job.module};
  out.features = select_features(job.about.inputs, job.inputs, job.observed, job.settings.features);
  for (size_t o = 0; o < job.observed.size(); ++o) {
    auto& observation = out.observations.emplace_back();
    const auto& lacking = out.features.needs_more_inputs;
    if (out.features.kept.empty() || std::find(lacking.begin(), lacking.end(), o) != lacking.end()) continue;
    Samples samples;
    for (size_t f : out.features.kept)
      samples.inputs.push_back(job.inputs[f]);
    samples.observed = job.observed[o];
    if (!all_positive(samples)) {
      observation.model = ObservationModel::learn(samples, job.settings.learning);
      continue;
    }
    // How much slower each server is than what is common to all, before what is common is learnt.
    const Estimator common = Estimator::fit(samples, job.settings.learning.fit);
    std::vector<std::vector<double>> ratios(job.servers.size());
    for (size_t i = 0; i < samples.size(); ++i)
      ratios[job.server_of[i]].push_back(log_ratio(samples.observed[i], common.predict(samples.row(i))));
    std::vector<double> factors(job.servers.size(), 1);
    for (size_t s = 0; s < ratios.size(); ++s)
      if (const double median = median_of(ratios[s]); std::abs(median) > kSameSpeed)
        factors[s] = std::exp2(median);
    for (size_t i = 0; i < samples.size(); ++i)
      samples.observed[i] /= factors[job.server_of[i]];
    observation.model = ObservationModel::learn(samples, job.settings.learning);
    for (size_t s = 0; s < factors.size(); ++s)
      observation.factors[job.servers[s]] = factors[s];
    std::vector<double> residuals;
    for (size_t i = 0; i < samples.size(); ++i)
      residuals.push_back(
          log_ratio(samples.observed[i], observation.model->estimator().predict(samples.row(i))));
    observation.deviation = robust_deviation_of(residuals);
  }
  return out;
}

void Detector::install(Fitted fitted, TimePoint now) {
  const auto found = modules_.find(fitted.module);
  if (found == modules_.end()) return;
  Known& known = found->second;
  known.fitting = false;
  if (fitted.observations.size() != 1 + known.about.outputs.size()) return;
  known.fitted_at = now;
  known.watches.clear();
  std::vector<Range> ranges;
  for (const auto& observation : fitted.observations) {
    std::vector<Range> of;
    if (observation.model) of = observation.model->ranges();
    known.watches.emplace_back(std::move(of));
  }
  known.fitted = std::move(fitted);
}

void Detector::refit(TimePoint now) {
  while (auto job = due(now))
    install(fit(*job), now);
}

void Detector::forget(TimePoint now) {
  for (auto module = modules_.begin(); module != modules_.end();) {
    std::erase_if(module->second.servers,
                  [&](const auto& server) { return now - server.second.seen > settings_.forget_after; });
    module = module->second.servers.empty() && !module->second.fitting ? modules_.erase(module)
                                                                       : std::next(module);
  }
}

std::vector<proto::Verdict> Detector::alarms(TimePoint now) {
  forget(now);
  struct Suspect {
    Known* known;
    OnServer* server;
    size_t observation;
  };
  std::vector<Suspect> suspects;
  std::vector<double> chances;
  for (auto& [key, known] : modules_) {
    if (!known.fitted) continue;
    for (auto& [process, server] : known.servers)
      for (size_t o = 0; o < server.judged.size(); ++o) {
        const auto& recent = server.judged[o].recent;
        if (!known.fitted->observations[o].model || recent.seen() < RecentExecutions::kFarNeeded) continue;
        suspects.push_back({&known, &server, o});
        const ObservationModel& model = *known.fitted->observations[o].model;
        chances.push_back(recent.chance(model.far_chance(), model.off_chance()));
      }
  }
  const auto rejected = benjamini_hochberg(chances, settings_.wrong_alarms);
  // What servers show while fewer others are seen to be well is a change of the load or of the code, and no server's fault.
  std::map<std::pair<Known*, size_t>, std::pair<size_t, size_t>> odd_of;
  const auto odd = [&](size_t i) {
    const Judged& judged = suspects[i].server->judged[suspects[i].observation];
    return rejected[i] && judged.recent.enough() && judged.factor() >= settings_.least_factor;
  };
  for (size_t i = 0; i < suspects.size(); ++i) {
    auto& [found, of] = odd_of[{suspects[i].known, suspects[i].observation}];
    found += odd(i) ? 1 : 0;
    ++of;
  }
  std::vector<proto::Verdict> out;
  for (size_t i = 0; i < suspects.size(); ++i) {
    const Suspect& suspect = suspects[i];
    Judged& judged = suspect.server->judged[suspect.observation];
    const auto [found, of] = odd_of[{suspect.known, suspect.observation}];
    const size_t well = of - found;
    const bool of_all = suspect.known->servers.size() >= kComparable && (well < kWellNeeded || well <= found);
    if (judged.since && (judged.recent.calm() || of_all)) judged.since.reset();
    if (!judged.since && odd(i) && !of_all) judged.since = judged.first_odd;
    if (judged.since) out.push_back(verdict(*suspect.known, *suspect.server, suspect.observation, now));
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.factor() > b.factor(); });
  return out;
}

proto::Verdict Detector::verdict(const Known& known, const OnServer& server, size_t observation,
                                 TimePoint now) const {
  const Judged& judged = server.judged[observation];
  const ObservationModel& model = *known.fitted->observations[observation].model;
  proto::Verdict out;
  out.set_kind(proto::Verdict::BEHAVIOUR);
  out.set_server(server.origin.name);
  out.set_server_id(server.origin.server_id);
  out.set_process(server.origin.process);
  out.set_process_kind(known.about.process_kind);
  out.set_region(known.about.region);
  out.set_file(known.about.file);
  out.set_line(known.about.line);
  out.set_function(known.about.function);
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
  out.set_confidence(known.servers.size() >= kComparable && !extrapolated ? proto::Verdict::LIKELY
                                                                          : proto::Verdict::UNSURE);

  const std::string name = name_of(known.about, observation);
  out.add_why(
      fmt::format("{} of the last {} executions have more {} than their inputs say, {} of them far more",
                  judged.recent.off(), judged.recent.seen(), name, judged.recent.far()));
  if (!judged.odd.empty()) {
    const Odd& last = judged.odd.back();
    std::string inputs;
    for (size_t k = 0; k < last.inputs.size(); ++k)
      inputs += fmt::format("{}{} {:.4g}", k == 0 ? "" : ", ",
                            known.about.inputs[known.fitted->features.kept[k]], last.inputs[k]);
    out.add_why(fmt::format("the last of them: {} where {} were expected ({})",
                            quantity(last.actual, observation == 0),
                            quantity(last.predicted, observation == 0), inputs));
    std::string beyond;
    for (const auto& input : last.beyond)
      beyond += fmt::format("{}{} ({:.0f} sigma)", beyond.empty() ? "" : ", ",
                            known.about.inputs[known.fitted->features.kept[input.input]], input.distance);
    if (!beyond.empty()) out.add_why("extrapolated in: " + beyond);
  }
  out.add_why(fmt::format("the model is of {} executions on {} servers, with an R2 of {:.2f} out of fold",
                          model.learnt_from(), known.servers.size(), model.r2()));
  return out;
}

std::vector<Detector::Learnt> Detector::learnt() const {
  std::vector<Learnt> out;
  for (const auto& [key, known] : modules_) {
    if (!known.fitted) continue;
    for (size_t o = 0; o < known.fitted->observations.size(); ++o) {
      const auto& model = known.fitted->observations[o].model;
      Learnt line{.process_kind = known.about.process_kind,
                  .region = known.about.region,
                  .observation = name_of(known.about, o),
                  .needs_more_inputs = !model};
      if (model) {
        line.r2 = model->r2();
        line.usable = model->usable();
        line.samples = model->learnt_from();
        line.sections = model->estimator().sections();
      }
      const Features& features = known.fitted->features;
      for (size_t f : features.kept)
        line.inputs.push_back(known.about.inputs[f]);
      for (const auto& duplicate : features.duplicates)
        line.duplicates.push_back(known.about.inputs[duplicate.dropped]);
      for (size_t f : features.noise)
        line.noise.push_back(known.about.inputs[f]);
      out.push_back(std::move(line));
    }
  }
  return out;
}

}  // namespace kintsugi::behaviour
