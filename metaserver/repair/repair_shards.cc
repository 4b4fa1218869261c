#include "metaserver/repair/repair_shards.h"

#include <utility>

#include "common/log/log.h"

namespace kintsugi::metaserver {

RepairShards::RepairShards(const runtime::Clock& clock, uint64_t first_epoch)
    : clock_(clock), started_(clock.now()), last_epoch_(first_epoch) {}

Status RepairShards::join(ManagerId id, const std::string& address, const std::string& http_address,
                          uint32_t newest_format) {
  if (id == 0) return {Code::kInvalidArgument, "0 is not the id of a repair manager"};
  const auto known = managers_.find(id);
  if (known == managers_.end()) {
    if (managers_.size() >= kMaxManagers) return {Code::kLimitExceeded, "too many repair managers"};
    std::erase_if(managers_, [&](const auto& manager) { return manager.second.address == address; });
    managers_[id] = {address, http_address, clock_.now(), ++last_epoch_, newest_format};
    log::info("repair manager {} joins: {}", id, address);
    give_out();
    return {};
  }
  known->second.last_heard = clock_.now();
  if (!settled_) return {};
  // A new manager gets its shards here, one by one, when their old owner asks: the answer tells that one what it lost.
  for (uint32_t shard = 0; shard < kRepairShards; ++shard)
    if (owners_[shard] == id) give(shard, wanted_owner(shard));
  return {};
}

void RepairShards::leave(ManagerId id) {
  const auto known = managers_.find(id);
  if (known == managers_.end()) return;
  log::info("repair manager {} at {} leaves", id, known->second.address);
  managers_.erase(known);
  give_out();
}

void RepairShards::expire() {
  const TimePoint now = clock_.now();
  if (now >= started_ + kSettle) settle();
  const size_t before = managers_.size();
  std::erase_if(managers_, [&](const auto& entry) {
    if (now < entry.second.last_heard + kGone) return false;
    log::warning("repair manager {} at {} is gone", entry.first, entry.second.address);
    return true;
  });
  if (managers_.size() != before) give_out();
}

void RepairShards::settle() {
  if (std::exchange(settled_, true)) return;
  give_out();
}

void RepairShards::give_out() {
  if (!settled_) return;
  for (uint32_t shard = 0; shard < kRepairShards; ++shard)
    if (!managers_.contains(owners_[shard])) give(shard, wanted_owner(shard));
}

void RepairShards::give(uint32_t shard, ManagerId to) {
  const ManagerId from = owners_[shard];
  if (from == to) return;
  owners_[shard] = to;
  for (ManagerId changed : {from, to})
    if (const auto manager = managers_.find(changed); manager != managers_.end())
      manager->second.epoch = ++last_epoch_;
}

RepairShards::ManagerId RepairShards::wanted_owner(uint32_t shard) const {
  ManagerId best = 0;
  uint64_t best_score = 0;
  for (const auto& [id, manager] : managers_) {
    const uint64_t score = mix_bits(id ^ mix_bits(shard + 1));
    if (best == 0 || score > best_score) {
      best = id;
      best_score = score;
    }
  }
  return best;
}

std::vector<uint32_t> RepairShards::shards_of(ManagerId id) const {
  std::vector<uint32_t> shards;
  for (uint32_t shard = 0; shard < kRepairShards; ++shard)
    if (owners_[shard] == id) shards.push_back(shard);
  return shards;
}

const RepairShards::Manager* RepairShards::find(ManagerId id) const {
  const auto known = managers_.find(id);
  return known == managers_.end() ? nullptr : &known->second;
}

}  // namespace kintsugi::metaserver
