#include "repair_manager/plan/helper_pool.h"

#include <algorithm>

#include "erasure/code.h"

namespace kintsugi::repair_manager {
namespace {

struct Setting {
  const SelectionInput& input;
  const PlanWishes& wishes;
  const LinkModel& link;

  const ChunkView& chunk(uint32_t index) const { return input.stripe.chunks[index]; }
  LinkRate link_of(const ServerView& server) const {
    return input.servers.link(server, link.bytes_per_second);
  }
};

Result<std::vector<HelperCandidate>> ranked(const Setting& setting, Busy busy) {
  KINTSUGI_ASSIGN(std::vector<HelperCandidate> candidates, rank_helpers(setting.input, busy));
  if (setting.wishes.helpers.empty()) return candidates;
  std::vector<HelperCandidate> wished;
  for (uint32_t index : setting.wishes.helpers) {
    const auto at = std::find_if(candidates.begin(), candidates.end(),
                                 [&](const HelperCandidate& candidate) { return candidate.index == index; });
    if (at == candidates.end())
      return Status{Code::kLimitExceeded, fmt::format("chunk {} cannot help now", index)};
    wished.push_back(*at);
  }
  return wished;
}

void add_to_pool(const Setting& setting, const HelperCandidate& candidate, uint32_t rows_read,
                 HelperPool& helpers) {
  helpers.pool.push_back(&setting.chunk(candidate.index));
  helpers.links.push_back(setting.link_of(*candidate.server));
  helpers.rows_read.push_back(rows_read);
}

/// For codes where any k chunks will do: different slices may be carried by different ones.
HelperPool any_helpers(const Setting& setting, const std::vector<HelperCandidate>& candidates) {
  HelperPool helpers;
  const uint32_t k = setting.input.policy.k;
  for (const HelperCandidate& candidate : candidates) {
    if (candidate.server == nullptr) {
      if (helpers.free.size() < k) helpers.free.push_back(candidate.index);
      continue;
    }
    const bool spared = setting.wishes.trees.trees.empty() &&
                        (candidate.avoid || candidate.tier == HelperCandidate::Tier::kLast);
    if (helpers.pool.size() + helpers.free.size() >= k && spared) continue;
    add_to_pool(setting, candidate, 1, helpers);
  }
  helpers.needed = k - helpers.free.size();
  return helpers;
}

/// For codes that say which chunks help. Chunks whose server failed before are taken only if the code cannot do
/// without them.
Result<HelperPool> certain_helpers(const Setting& setting, const std::vector<HelperCandidate>& candidates,
                                   const std::vector<uint32_t>& lost) {
  const auto code = erasure::Code::get(setting.input.policy);
  std::vector<uint32_t> indices;
  for (const HelperCandidate& candidate : candidates)
    if (candidate.tier != HelperCandidate::Tier::kLast) indices.push_back(candidate.index);
  Result<erasure::RepairEquation> equation = erasure::repair_equation(*code, lost, indices);
  if (!equation) {
    indices.clear();
    for (const HelperCandidate& candidate : candidates)
      indices.push_back(candidate.index);
    equation = erasure::repair_equation(*code, lost, indices);
  }
  if (!equation) return equation.error();
  HelperPool helpers;
  for (const HelperCandidate& candidate : candidates)
    for (const erasure::RepairEquation::Term& term : equation->terms)
      if (term.helper == candidate.index && candidate.server != nullptr)
        add_to_pool(setting, candidate, static_cast<uint32_t>(term.own_rows.size()), helpers);
  helpers.needed = helpers.pool.size();
  helpers.equation = std::move(*equation);
  return helpers;
}

}  // namespace

Result<HelperPool> pick_helpers(const SelectionInput& input, const PlanWishes& wishes, const LinkModel& link,
                                const std::vector<uint32_t>& lost, Busy busy) {
  const Setting setting{input, wishes, link};
  KINTSUGI_ASSIGN(const std::vector<HelperCandidate> candidates, ranked(setting, busy));
  // One lost chunk only: several trees below a node that stores would need slice masks there, which nodes do not have.
  const bool any = setting.input.policy.family == erasure::Policy::Family::kReedSolomon && lost.size() == 1;
  if (!any) return certain_helpers(setting, candidates, lost);
  if (candidates.size() < setting.input.policy.k)
    return Status{Code::kUnavailable, fmt::format("{} helper chunks are not enough", candidates.size())};
  return any_helpers(setting, candidates);
}

}  // namespace kintsugi::repair_manager
