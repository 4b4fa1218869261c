#include "monitoring/behaviour/detector.h"

#include <algorithm>
#include <cmath>

#include "common/base/hash.h"
#include "common/base/statistics.h"
#include "monitoring/behaviour/behaviour_verdict.h"

namespace kintsugi::behaviour {
namespace {

/// Evidence that is kept of one observation on one server.
constexpr size_t kOddKept = 20;
/// Number of other servers that have to be well.
constexpr size_t kWellNeeded = 2;

uint64_t key_of(const Module& module) {
  return mix_bits(hash_name(module.process_kind) ^ mix_bits(module.role_path));
}

/// Executions are kept by the octave of this: their bytes, where that is an input, else the first input.
double size_of(const Module& module, const std::vector<double>& inputs) {
  for (size_t f = 0; f < inputs.size(); ++f)
    if (module.inputs[f].find("bytes") != std::string::npos) return inputs[f];
  return inputs.empty() ? 1 : inputs.front();
}

}  // namespace

bool Detector::OnServer::alarmed() const {
  return std::any_of(judged.begin(), judged.end(), [](const Judged& j) { return j.since.has_value(); });
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
    known = Known{.about = module};  // another build of the program measures other inputs
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
    const double size = size_of(module, execution.inputs);
    if (!on.alarmed()) on.reservoir.add(size, std::move(execution));
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

std::optional<FitJob> Detector::due(TimePoint now) {
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

  FitJob job{.module = chosen,
             .about = oldest->about,
             .learning = settings_.learning,
             .features = settings_.features};
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
  // What servers show while fewer others are seen to be well is a change of the load or of the code, and no server's
  // fault.
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
    if (judged.since)
      out.push_back(behaviour_verdict({.about = suspect.known->about,
                                       .fitted = *suspect.known->fitted,
                                       .observation = suspect.observation,
                                       .servers = suspect.known->servers.size(),
                                       .origin = suspect.server->origin,
                                       .judged = judged},
                                      now));
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.factor() > b.factor(); });
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
                  .observation = observation_name(known.about, o),
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
