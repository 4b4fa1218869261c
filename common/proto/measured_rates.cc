#include "common/proto/measured_rates.h"

#include <algorithm>
#include <vector>

namespace kintsugi::proto {
namespace {

struct Row {
  Verdict::Kind kind;
  Verdict::Confidence confidence;
  MeasuredRate rate;
};

const std::vector<Row> kRows{
#include "common/proto/measured_rates.inc"
};

}  // namespace

std::optional<MeasuredRate> measured_rate(Verdict::Kind kind, Verdict::Confidence confidence) {
  const auto row = std::ranges::find_if(
      kRows, [&](const Row& each) { return each.kind == kind && each.confidence == confidence; });
  if (row == kRows.end() || row->rate.of < kLeastMeasured) return std::nullopt;
  return row->rate;
}

}  // namespace kintsugi::proto
