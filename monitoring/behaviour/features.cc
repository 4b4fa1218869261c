#include "monitoring/behaviour/features.h"

#include <algorithm>

#include "monitoring/behaviour/mic.h"

namespace kintsugi::behaviour {
namespace {

/// At most `count` of the values, evenly spread over the column.
std::vector<double> thin(const std::vector<double>& column, size_t count) {
  if (column.size() <= count) return column;
  std::vector<double> out;
  for (size_t i = 0; i < count; ++i)
    out.push_back(column[i * column.size() / count]);
  return out;
}

}  // namespace

Features select_features(const std::vector<std::string>& names,
                         const std::vector<std::vector<double>>& inputs,
                         const std::vector<std::vector<double>>& observations,
                         const FeatureSettings& settings) {
  Features out;
  std::vector<std::vector<double>> in, observed;
  for (const auto& column : inputs)
    in.push_back(thin(column, settings.mic_samples));
  for (const auto& column : observations)
    observed.push_back(thin(column, settings.mic_samples));
  const size_t points = observed.empty() ? 0 : observed.front().size();
  const double noise = std::max(settings.least_noise, mic_noise_threshold(points));

  std::vector<double> best(in.size(), 0);
  out.scores.assign(in.size(), std::vector<double>(observed.size(), 0));
  for (size_t f = 0; f < in.size(); ++f)
    for (size_t o = 0; o < observed.size(); ++o) {
      out.scores[f][o] = mic(in[f], observed[o]);
      best[f] = std::max(best[f], out.scores[f][o]);
    }
  for (size_t o = 0; o < observed.size(); ++o)
    if (std::none_of(out.scores.begin(), out.scores.end(),
                     [&](const auto& score) { return score[o] >= noise; }))
      out.needs_more_inputs.push_back(o);

  // The more an input says, the earlier it is taken; whoever says the same as one that was taken is a duplicate of it.
  std::vector<size_t> candidates;
  for (size_t f = 0; f < in.size(); ++f)
    if (best[f] >= noise)
      candidates.push_back(f);
    else
      out.noise.push_back(f);
  std::sort(candidates.begin(), candidates.end(),
            [&](size_t a, size_t b) { return best[a] != best[b] ? best[a] > best[b] : names[a] < names[b]; });
  for (size_t f : candidates) {
    bool duplicate = false;
    for (size_t k : out.kept) {
      const double score = mic(in[f], in[k]);
      if (score < settings.duplicate) continue;
      out.duplicates.push_back({.dropped = f, .kept = k, .score = score});
      duplicate = true;
      break;
    }
    if (!duplicate) out.kept.push_back(f);
  }
  std::sort(out.kept.begin(), out.kept.end());
  return out;
}

}  // namespace kintsugi::behaviour
