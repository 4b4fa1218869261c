#include "erasure/repair_equation.h"

#include <algorithm>

#include <fmt/format.h>

namespace kintsugi::erasure {

Result<RepairEquation> repair_equation(const Code& code, std::span<const uint32_t> lost,
                                       std::span<const uint32_t> helpers) {
  using StatusCode = kintsugi::Code;
  KINTSUGI_TRY(code.check_indices(lost, "lost"));
  KINTSUGI_TRY(code.check_indices(helpers, "helper"));
  if (lost.empty()) return Status(StatusCode::kInvalidArgument, "no lost chunk to repair");
  for (const uint32_t chunk : lost) {
    if (std::find(helpers.begin(), helpers.end(), chunk) == helpers.end()) continue;
    return Status(StatusCode::kInvalidArgument, fmt::format("chunk {} is both lost and a helper", chunk));
  }
  if (helpers.size() != code.k()) {
    return Status(
        StatusCode::kInvalidArgument,
        fmt::format("a repair needs exactly {} helpers, but {} were given", code.k(), helpers.size()));
  }

  const auto matrix = code.decode_matrix(helpers, lost);
  RepairEquation equation;
  equation.lost.assign(lost.begin(), lost.end());
  for (size_t h = 0; h < helpers.size(); ++h) {
    RepairEquation::Term term{.helper = helpers[h], .coefficients = {}};
    for (size_t s = 0; s < lost.size(); ++s)
      term.coefficients.push_back(matrix[s * helpers.size() + h]);
    const bool contributes =
        std::any_of(term.coefficients.begin(), term.coefficients.end(), [](uint8_t c) { return c != 0; });
    if (contributes) equation.terms.push_back(std::move(term));
  }
  return equation;
}

}  // namespace kintsugi::erasure
