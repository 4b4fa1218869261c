// How well the changes of logs and machines agree on recorded healthy runs that chose no pair (Tan 2008, 6.2).
//
//   blacksheep_scores LOGS TRACE      one line of JSON for each role
//
// The healthy time is cut into runs of two minutes. Every other one chooses the pairs, the rest is scored: the mean of the
// pairs' scores per change, the text's score over all instants, and a control in which each run has the states of another one.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "common/base/statistics.h"
#include "monitoring/metrics/blacksheep/profile.h"
#include "monitoring/metrics/trace/coarser.h"
#include "monitoring/metrics/trace/files.h"

namespace kintsugi::blacksheep {
namespace {

using Json = nlohmann::ordered_json;
using Runs = std::vector<Run>;

constexpr std::chrono::seconds kPeriod{1}, kRun{120};

std::map<std::string, Runs> runs_of(const std::string& logs, const metric_trace::Trace& trace) {
  std::map<std::string, Runs> out;
  for (uint32_t i = 0; i < trace.header.sources.size(); ++i) {
    const std::string& name = trace.header.sources[i].name;
    const auto states =
        read_states((std::filesystem::path(logs) / (name + ".activity.log")).string(), kPeriod);
    if (!states) continue;
    const auto series = metric_trace::averaged_to(metric_trace::series_of(trace, i), kPeriod);
    for (const auto& part : metric_trace::stretches(series, kRun))
      if (auto run = run_of(part, *states)) out[metric_trace::role_of(name)].push_back(std::move(*run));
  }
  return out;
}

/// How the pair agrees over all runs, each with the states of the one so many further on.
Corroboration score_of(const Profile& profile, const Pair& pair, const Runs& runs, size_t shift) {
  Corroboration total;
  for (size_t i = 0; i < runs.size(); ++i) {
    const auto own = changes_of(pair, runs[i]), others = changes_of(pair, runs[(i + shift) % runs.size()]);
    if (own && others)
      total +=
          corroborate(own->metric, others->state, runs[i].instants(), profile.options.sigma(runs[i].period));
  }
  return total;
}

Json scores_of(const std::string& role, Runs runs) {
  give_all_states(runs);
  Runs chosen_by, held_out;
  for (size_t i = 0; i < runs.size(); ++i)
    (i % 2 == 0 ? chosen_by : held_out).push_back(std::move(runs[i]));
  Json out{{"role", role}, {"runs", held_out.size()}};
  const auto profile = learn(role, chosen_by);
  if (!profile) {
    out["not_enough"] = profile.error().to_string();
    return out;
  }
  std::vector<double> normalised, control;
  Corroboration pooled;
  out["pairs"] = Json::array();
  for (const Pair& pair : profile->pairs) {
    const Corroboration score = score_of(*profile, pair, held_out, 0);
    normalised.push_back(score.normalised());
    control.push_back(score_of(*profile, pair, held_out, 1).normalised());
    pooled += score;
    out["pairs"].push_back({{"metric", pair.metric},
                            {"state", pair.state},
                            {"training", pair.training.normalised()},
                            {"held_out", score.normalised()},
                            {"changes", score.events()}});
  }
  out["mean"] = normalised.empty() ? 0 : mean_of(normalised);
  out["of_the_text"] = pooled.per_instant();
  out["shuffled"] = control.empty() ? 0 : mean_of(control);
  out["possible_pairs"] = profile->all_scores.size();
  for (const double share : {0.1, 0.5, 0.9, 1.0})
    out["all_pairs"].push_back(quantile_of_sorted(profile->all_scores, share));
  return out;
}

}  // namespace
}  // namespace kintsugi::blacksheep

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: blacksheep_scores LOGS TRACE\n");
    return 2;
  }
  const auto trace = kintsugi::metric_trace::read_part(argv[2]);
  if (!trace) {
    fmt::print(stderr, "blacksheep_scores: {}\n", trace.error().message());
    return 1;
  }
  for (auto& [role, runs] : kintsugi::blacksheep::runs_of(argv[1], *trace))
    fmt::print("{}\n", kintsugi::blacksheep::scores_of(role, std::move(runs)).dump());
}
