#include "monitoring/model/worker_model.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "common/base/hash.h"
#include "common/proto/sight_snapshot.pb.h"

namespace kintsugi::model {

uint64_t state_key(const ProcessView& view, uint32_t state) {
  const proto::SightState* known = view.state(state);
  if (known == nullptr) return 0;
  const uint64_t key = mix_bits(mix_bits(known->role_path() ^ hash_name(known->last_child())) +
                                static_cast<uint64_t>(known->wait()));
  return key == 0 ? 1 : key;
}

void EdgeModel::add(Duration sojourn) {
  const auto ns = static_cast<uint64_t>(std::max<int64_t>(sojourn.count(), 1));
  const auto x = static_cast<int64_t>(std::llround(std::log2(static_cast<double>(ns)) * 256));
  count++;
  sum_q8 += static_cast<uint64_t>(x);
  sum_sq_q16 += static_cast<uint64_t>(x * x);
  octaves[std::min<size_t>(std::bit_width(ns) - 1, kOctaves - 1)]++;
}

EdgeModel& EdgeModel::operator+=(const EdgeModel& other) {
  count += other.count;
  sum_q8 += other.sum_q8;
  sum_sq_q16 += other.sum_sq_q16;
  for (size_t i = 0; i < kOctaves; i++)
    octaves[i] += other.octaves[i];
  return *this;
}

EdgeModel& EdgeModel::operator-=(const EdgeModel& earlier) {
  count -= earlier.count;
  sum_q8 -= earlier.sum_q8;
  sum_sq_q16 -= earlier.sum_sq_q16;
  for (size_t i = 0; i < kOctaves; i++)
    octaves[i] -= earlier.octaves[i];
  return *this;
}

double EdgeModel::mean() const {
  return count == 0 ? 0
                    : static_cast<double>(static_cast<int64_t>(sum_q8)) / 256 / static_cast<double>(count);
}

double EdgeModel::deviation() const {
  if (count == 0) return 0;
  const double square =
      static_cast<double>(static_cast<int64_t>(sum_sq_q16)) / 65'536 / static_cast<double>(count);
  return std::sqrt(std::max(square - mean() * mean(), 0.0));
}

WorkerModel WorkerModel::of(const ProcessView& view, std::string_view role) {
  WorkerModel model;
  const auto is_of_role = [&](uint32_t state) {
    const proto::SightState* known = view.state(state);
    return known != nullptr && view.role_name(known->role()) == role;
  };
  for (const auto& [ends, edge] : view.edges()) {
    if (!role.empty() && !is_of_role(edge.from()) && !is_of_role(edge.to())) continue;
    EdgeModel counted{.count = edge.count(),
                      .sum_q8 = static_cast<uint64_t>(edge.sum()),
                      .sum_sq_q16 = static_cast<uint64_t>(edge.sum_sq())};
    for (int i = 0; i < edge.buckets_size(); i++)
      counted.octaves[std::min<size_t>(i, EdgeModel::kOctaves - 1)] += edge.buckets(i);
    model.edges_[{state_key(view, edge.from()), state_key(view, edge.to())}] += counted;
  }
  model.bound();
  return model;
}

void WorkerModel::add(uint64_t from, uint64_t to, Duration sojourn) {
  edges_[{from, to}].add(sojourn);
  bound();
}

void WorkerModel::add(uint64_t from, uint64_t to, const EdgeModel& edge) {
  edges_[{from, to}] += edge;
  bound();
}

void WorkerModel::merge(const WorkerModel& other) {
  auto at = edges_.begin();
  for (const auto& [key, edge] : other.edges_) {
    at = edges_.try_emplace(at, key);
    at->second += edge;
  }
  dropped_ += other.dropped_;
  bound();
}

WorkerModel WorkerModel::since(const WorkerModel& earlier) const {
  const bool started_again =
      std::any_of(earlier.edges_.begin(), earlier.edges_.end(), [this](const auto& before) {
        const auto now = edges_.find(before.first);
        return now != edges_.end() && now->second.count < before.second.count;
      });
  if (started_again) return *this;
  WorkerModel window;
  for (const auto& [key, edge] : edges_) {
    EdgeModel grown = edge;
    const auto before = earlier.edges_.find(key);
    if (before != earlier.edges_.end()) grown -= before->second;
    if (grown.count > 0) window.edges_.emplace_hint(window.edges_.end(), key, grown);
  }
  return window;
}

double WorkerModel::probability(uint64_t from, uint64_t to) const {
  const auto found = edges_.find({from, to});
  const uint64_t all = found == edges_.end() ? 0 : out_of(from);
  return all == 0 ? 0 : static_cast<double>(found->second.count) / static_cast<double>(all);
}

uint64_t WorkerModel::out_of(uint64_t from) const {
  uint64_t sum = 0;
  for (auto at = edges_.lower_bound({from, 0}); at != edges_.end() && at->first.first == from; ++at)
    sum += at->second.count;
  return sum;
}

std::vector<uint64_t> WorkerModel::states() const {
  std::vector<uint64_t> states;
  for (const auto& [key, edge] : edges_) {
    states.push_back(key.first);
    states.push_back(key.second);
  }
  std::sort(states.begin(), states.end());
  states.erase(std::unique(states.begin(), states.end()), states.end());
  return states;
}

void WorkerModel::bound() {
  while (edges_.size() > kMaxEdges) {
    edges_.erase(std::prev(edges_.end()));
    dropped_++;
  }
}

}  // namespace kintsugi::model
