#include "erasure/repair_equation.h"

#include <algorithm>

#include <fmt/format.h>

#include "erasure/rotated_repair.h"

namespace kintsugi::erasure {

namespace {

bool contains(std::span<const uint32_t> indices, uint32_t index) {
  return std::find(indices.begin(), indices.end(), index) != indices.end();
}

// The candidates that a local code needs: the groups of the lost chunks when all of these are
// whole, otherwise everything.
std::vector<uint32_t> local_candidates(const Code& code, std::span<const uint32_t> lost,
                                       std::span<const uint32_t> candidates) {
  std::vector<uint32_t> needed;
  for (const uint32_t chunk : lost) {
    const std::vector<uint32_t> group = code.local_group(chunk);
    const bool whole = !group.empty() && std::all_of(group.begin(), group.end(), [&](uint32_t member) {
      return member == chunk || contains(candidates, member);
    });
    if (!whole) return {candidates.begin(), candidates.end()};
    needed.insert(needed.end(), group.begin(), group.end());
  }
  std::vector<uint32_t> kept;
  std::copy_if(candidates.begin(), candidates.end(), std::back_inserter(kept),
               [&](uint32_t chunk) { return contains(needed, chunk); });
  return kept;
}

Result<Code::Combination> cheapest(const Code& code, std::span<const uint32_t> lost,
                                   std::span<const uint32_t> candidates) {
  if (lost.size() == 1) {
    if (auto rotated = rotated_repair(code, lost[0], candidates)) return std::move(*rotated);
  }
  return code.combine(local_candidates(code, lost, candidates), lost);
}

// Makes the term of helper number `h` from its columns of the matrix, without those that are zero.
RepairEquation::Term term_of(const Code::Combination& combination, size_t h, uint32_t rows, size_t sums) {
  const size_t columns = combination.helpers.size() * rows;
  const auto value = [&](size_t sum, uint32_t row) {
    return combination.matrix[sum * columns + h * rows + row];
  };
  RepairEquation::Term term{.helper = combination.helpers[h]};
  for (uint32_t row = 0; row < rows; ++row) {
    for (size_t sum = 0; sum < sums; ++sum) {
      if (value(sum, row) == 0) continue;
      term.own_rows.push_back(row);
      break;
    }
  }
  for (size_t sum = 0; sum < sums; ++sum) {
    for (const uint32_t row : term.own_rows)
      term.coefficients.push_back(value(sum, row));
  }
  return term;
}

}  // namespace

uint32_t RepairEquation::symbols() const {
  size_t count = 0;
  for (const Term& term : terms)
    count += term.own_rows.size();
  return static_cast<uint32_t>(count);
}

Result<RepairEquation> repair_equation(const Code& code, std::span<const uint32_t> lost,
                                       std::span<const uint32_t> candidates) {
  using StatusCode = kintsugi::Code;
  KINTSUGI_TRY(code.check_indices(lost, "lost"));
  KINTSUGI_TRY(code.check_indices(candidates, "helper"));
  if (lost.empty()) return Status(StatusCode::kInvalidArgument, "no lost chunk to repair");
  for (const uint32_t chunk : lost) {
    if (!contains(candidates, chunk)) continue;
    return Status(StatusCode::kInvalidArgument, fmt::format("chunk {} is both lost and a helper", chunk));
  }

  KINTSUGI_ASSIGN(const Code::Combination combination, cheapest(code, lost, candidates));
  RepairEquation equation{.lost = {lost.begin(), lost.end()}, .rows = code.rows()};
  for (size_t h = 0; h < combination.helpers.size(); ++h) {
    auto term = term_of(combination, h, code.rows(), lost.size() * code.rows());
    if (!term.own_rows.empty()) equation.terms.push_back(std::move(term));
  }
  return equation;
}

}  // namespace kintsugi::erasure
