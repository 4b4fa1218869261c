/// Who takes part in how many repairs. Counted before a tree starts: no node ever waits for a slot inside
/// one, or two trees could wait for each other.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "common/base/ids.h"

namespace kintsugi::repair_manager {

struct ServerLoad {
  uint32_t as_helper = 0;
  uint32_t as_destination = 0;
  double helper_share = 0;      ///< of whole chunks, where it helps with some of the slices only
  uint64_t incoming_bytes = 0;  ///< of chunks being repaired onto it
  uint32_t repairs() const { return as_helper + as_destination; }
};

class SlotTable {
 public:
  /// Each server helps in at most `max_per_server` repairs at once, and is the destination of as many.
  /// Helping with some of the slices counts as that share of a repair; with less than one of them free,
  /// whoever helps with any may begin.
  explicit SlotTable(uint32_t max_per_server) : max_per_server_(max_per_server) {}

  /// Of slots that are yet to be taken.
  void set_limit(uint32_t max_per_server) { max_per_server_ = max_per_server; }
  uint32_t limit() const { return max_per_server_; }

  ServerLoad load(ServerId server) const {
    const auto at = loads_.find(server);
    return at == loads_.end() ? ServerLoad{} : at->second;
  }
  bool can_help(ServerId server) const { return can_help(load(server)); }
  bool can_help(const ServerLoad& load) const { return load.helper_share < max_per_server_ - kRounding; }
  bool can_receive(ServerId server) const { return can_receive(load(server)); }
  bool can_receive(const ServerLoad& load) const { return load.as_destination < max_per_server_; }

  /// Takes the slots of one repair (asserted: they are free), and gives them back.
  void acquire(std::span<const ServerId> helpers, ServerId destination, uint64_t bytes,
               std::span<const double> shares = {});
  void release(std::span<const ServerId> helpers, ServerId destination, uint64_t bytes,
               std::span<const double> shares = {});

  /// The parts of it. Helpers of a degraded read are counted beyond the limit: it waits for nobody. `shares`:
  /// of the slices, for each helper; empty: all.
  void add_helpers(std::span<const ServerId> helpers, std::span<const double> shares = {});
  void remove_helpers(std::span<const ServerId> helpers, std::span<const double> shares = {});
  void add_destination(ServerId destination, uint64_t bytes);
  void remove_destination(ServerId destination, uint64_t bytes);

 private:
  static constexpr double kRounding = 1e-6;

  uint32_t max_per_server_;
  std::unordered_map<ServerId, ServerLoad> loads_;  // busy servers only; never iterated
};

}  // namespace kintsugi::repair_manager
