#include "monitoring/daemon/process_windows.h"

#include <set>

#include <nlohmann/json.hpp>

#include "common/proto/verdicts.h"
#include "monitoring/daemon/window_times.h"

namespace kintsugi::monitoring {
namespace {

using Document = nlohmann::ordered_json;

uint64_t total_transitions(const model::ProcessView& view) {
  uint64_t count = 0;
  for (const auto& [key, edge] : view.edges())
    count += edge.count();
  return count;
}

Document of_transition(const similarity::Transition& transition, double magnitude, const StateNames& names) {
  const similarity::StateInfo state = names.describe(transition.from);
  return {{"region", state.region.empty() ? state.name : state.region},
          {"wait", state.wait == proto::WAIT_NONE ? "" : proto::wait_name(state.wait)},
          {"file", state.file},
          {"magnitude", magnitude}};
}

Document of_terms(const std::vector<similarity::Term>& terms, const StateNames& names) {
  Document out = Document::array();
  for (const similarity::Term& term : terms)
    out.push_back(of_transition(term.transition, term.magnitude, names));
  return out;
}

constexpr std::string_view kBecause[] = {"time", "memory", "processor"};

}  // namespace

ProcessWindows::ProcessWindows(Methods methods)
    : methods_(methods),
      odd_([this](uint64_t state) { return similarity::use_of(names_.describe(state).wait); }) {}

void ProcessWindows::compare(const model::WorkerModel& window, const Process& process,
                             JudgedWindow& judged) const {
  if (process.past.empty()) return;
  model::WorkerModel past;
  for (const model::WorkerModel& each : process.past)
    past.merge(each);
  const auto judge = [&](similarity::Form form, const similarity::Model& now, const similarity::Model& before,
                         double& score, std::vector<similarity::Term>& top) {
    score = similarity::difference(now, before, form);
    top = similarity::characteristic_transitions(now, before, form);
  };
  judge(similarity::Form::kText, seconds_of(window), seconds_of(past), judged.text, judged.text_top);
  judge(similarity::Form::kOurs, log_times_of(window), log_times_of(past), judged.semi, judged.semi_top);
}

std::vector<JudgedWindow> ProcessWindows::add(const model::Snapshot& snapshot) {
  std::vector<JudgedWindow> out;
  std::set<uint64_t> there;
  for (const auto& view : snapshot.processes) {
    const proto::SightReport& last = view->last();
    if (last.last() || (last.kind() != "chunkserver" && last.kind() != "metaserver")) continue;
    there.insert(view->process());
    const uint64_t count = total_transitions(*view);
    Process& process = processes_[view->process()];
    if (count == process.count) continue;
    names_.learn(*view);
    const model::WorkerModel totals = model::WorkerModel::of(*view);
    const uint64_t delayed_ns = last.system().loop_delay_ns();
    if (process.count > 0) {  // the first window may have another length than the others
      const model::WorkerModel window = totals.since(process.totals);
      similarity::ProcessWindow told{
          .process = view->process(),
          .kind = last.kind(),
          .began = process.began,
          .ended = view->arrived(),
          .stays = {},
          .memory_bytes = static_cast<double>(last.system().memory_bytes()),
          .delayed_s = delayed_ns > process.delayed_ns
                           ? static_cast<double>(delayed_ns - process.delayed_ns) / 1e9
                           : 0};
      for (const auto& [key, edge] : window.edges())
        told.stays.push_back({.transition = {key.first, key.second}, .by_octave = edge.octaves});
      JudgedWindow judged{.process = view->process(),
                          .server_id = last.server_id(),
                          .server = view->display(),
                          .kind = last.kind(),
                          .began = process.began,
                          .began_wall_ns = process.began_wall_ns,
                          .ended_wall_ns = snapshot.wall_ns,
                          .ours = odd_.add(told)};
      if (methods_ == Methods::kAll) compare(window, process, judged);
      if (methods_ == Methods::kAll && judged.ours.score <= similarity::OddWindows::kOdd) {
        process.past.push_back(window);
        if (process.past.size() > kReferences) process.past.pop_front();
      }
      out.push_back(std::move(judged));
    }
    process.totals = totals;
    process.count = count;
    process.began = view->arrived();
    process.began_wall_ns = snapshot.wall_ns;
    process.delayed_ns = delayed_ns;
  }
  std::erase_if(processes_, [&](const auto& process) { return !there.contains(process.first); });
  return out;
}

std::string to_json(const JudgedWindow& window, const StateNames& names) {
  Document top = Document::array();
  for (const similarity::OddTransition& one : window.ours.top)
    top.push_back(of_transition(one.transition, one.excess_s, names));
  return Document{{"server", window.server},
                  {"kind", window.kind},
                  {"began", static_cast<double>(window.began_wall_ns) / 1e9},
                  {"ended", static_cast<double>(window.ended_wall_ns) / 1e9},
                  {"ours",
                   {{"score", window.ours.score},
                    {"because", kBecause[static_cast<size_t>(window.ours.because)]},
                    {"excess_s", window.ours.excess_s},
                    {"top", top}}},
                  {"text", {{"score", window.text}, {"top", of_terms(window.text_top, names)}}},
                  {"semi", {{"score", window.semi}, {"top", of_terms(window.semi_top, names)}}}}
      .dump();
}

}  // namespace kintsugi::monitoring
