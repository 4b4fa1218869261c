#include "monitoring/progress/evidence/sojourns.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace kintsugi::progress {
namespace {

size_t octave_of(Duration length) {
  const auto ns = static_cast<uint64_t>(std::max<int64_t>(length.count(), 1));
  return std::min<size_t>(std::bit_width(ns) - 1, Sojourns::kOctaves - 1);
}

}  // namespace

Sojourns::Total* Sojourns::total_of(uint64_t key) {
  if (key == 0) return nullptr;
  const auto found = totals_.find(key);
  if (found != totals_.end()) return &found->second;
  return totals_.size() < kMaxStates ? &totals_[key] : nullptr;
}

void Sojourns::add(const model::ProcessView& view) {
  for (const auto& [ends, edge] : view.edges()) {
    Total* total = edge.count() == 0 ? nullptr : total_of(state_key(view, edge.from()));
    if (total == nullptr) continue;
    total->count += edge.count();
    total->sum += static_cast<double>(edge.sum()) / 256;
    total->sum_sq += static_cast<double>(edge.sum_sq()) / 65'536;
    for (int i = 0; i < edge.buckets_size(); i++)
      total->octaves[std::min<size_t>(i, kOctaves - 1)] += edge.buckets(i);
  }
}

void Sojourns::add(uint64_t key, Duration length, uint64_t times) {
  Total* total = times == 0 ? nullptr : total_of(key);
  if (total == nullptr) return;
  const double x = std::log2(static_cast<double>(std::max<int64_t>(length.count(), 1)));
  total->count += times;
  total->sum += x * static_cast<double>(times);
  total->sum_sq += x * x * static_cast<double>(times);
  total->octaves[octave_of(length)] += times;
}

Duration Sojourns::limit(uint64_t key) const {
  const auto found = totals_.find(key);
  if (found == totals_.end() || found->second.count < kLeastSamples) return kUnknownStillness;
  const Total& total = found->second;
  const auto n = static_cast<double>(total.count);
  const double mean = total.sum / n;
  const double variance = std::max(total.sum_sq / n - mean * mean, 0.0);
  const double exponent = mean + kDeviations * std::sqrt(variance);
  // Reports may hold anything; what is no number is no knowledge.
  if (!std::isfinite(exponent)) return kUnknownStillness;
  if (exponent >= 62) return kMostStillness;
  const Duration usual(static_cast<int64_t>(std::exp2(std::max(exponent, 0.0))));
  return std::clamp(usual, kLeastStillness, kMostStillness);
}

Sojourns::Rarity Sojourns::rarity(uint64_t key, Duration age) const {
  Rarity rarity;
  if (const auto found = totals_.find(key); found != totals_.end()) {
    rarity.sojourns = found->second.count;
    // The octave that the age lies in counts as a whole: part of it lasted longer.
    for (size_t i = octave_of(age); i < kOctaves; i++)
      rarity.as_long += found->second.octaves[i];
    rarity.as_long = std::min(rarity.as_long, rarity.sojourns);
  }
  const double tail = (static_cast<double>(rarity.as_long) + 1) / (static_cast<double>(rarity.sojourns) + 2);
  rarity.probability = 1 - tail;
  rarity.surprise = -std::log2(tail);
  return rarity;
}

}  // namespace kintsugi::progress
