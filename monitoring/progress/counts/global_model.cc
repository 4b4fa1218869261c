#include "monitoring/progress/counts/global_model.h"

#include "monitoring/model/worker_model.h"

namespace kintsugi::progress {

using model::state_key;

GlobalModelBuilder::GlobalModelBuilder(const model::Snapshot& snapshot) {
  for (const auto& view : snapshot.processes)
    for (const auto& [ends, edge] : view->edges())
      add(state_key(*view, edge.from()), state_key(*view, edge.to()), static_cast<double>(edge.count()));
}

void GlobalModelBuilder::add(uint64_t from, uint64_t to, double count) {
  if (from == 0 && to != 0) entries_.insert(to);
  // Outside every task is no state: it would make everything reach everything.
  if (from != 0 && to != 0) model_.markov.add(from, to, count);
}

GlobalModel GlobalModelBuilder::build() {
  for (const uint64_t entry : entries_)
    if (const uint32_t state = model_.markov.find(entry); state != Markov::kNone)
      model_.entries.push_back(state);
  return std::move(model_);
}

}  // namespace kintsugi::progress
