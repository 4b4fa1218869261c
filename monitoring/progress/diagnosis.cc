#include "monitoring/progress/diagnosis.h"

#include "common/base/hash.h"
#include "monitoring/progress/history.h"

namespace kintsugi::progress {

std::vector<proto::Verdict> diagnose(const model::Snapshot& snapshot, const Settings& settings,
                                     History& history) {
  std::vector<proto::Verdict> verdicts;
  for (const auto& view : snapshot.processes) {
    if (view->last().loop().stalled_ns() < static_cast<uint64_t>(settings.loop_stall.count())) continue;
    proto::Verdict verdict;
    verdict.set_kind(proto::Verdict::RUNNING);
    verdict.set_server(view->display());
    verdict.set_process(view->process());
    verdict.set_server_id(view->last().server_id());
    verdict.set_process_kind(view->last().kind());
    verdict.set_since_ns(view->last().loop().stalled_ns());
    verdicts.push_back(std::move(verdict));
  }
  history.state().wanted.clear();
  return verdicts;
}

uint64_t identity(const proto::Verdict& verdict) {
  uint64_t hash = mix_bits(verdict.kind() + 1);
  for (const std::string* text : {&verdict.server(), &verdict.peer(), &verdict.device(), &verdict.region()})
    hash = mix_bits(hash ^ hash_name(*text));
  return mix_bits(hash ^ verdict.process());
}

}  // namespace kintsugi::progress
