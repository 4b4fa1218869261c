/// How many repairs each server takes part in. Counted before a tree starts: no node ever waits for a slot inside a
/// tree, or two trees could wait for each other.
///
/// Urgent repairs have as many slots of their own, since others may be slowed (decision 067) and hold theirs for long.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>

#include "common/base/ids.h"

namespace kintsugi::repair_manager {

struct ServerLoad {
  uint32_t as_helper = 0;
  uint32_t as_destination = 0;
  double helper_share = 0;           ///< repairs it helps in, each weighted with its share of the slices
  uint32_t urgent_destinations = 0;  ///< those of as_destination that are urgent, and below of helper_share
  double urgent_share = 0;
  uint64_t incoming_bytes = 0;  ///< total size of the chunks that are being rebuilt on it
  uint32_t repairs() const { return as_helper + as_destination; }
};

class SlotTable {
 public:
  /// Each server helps in at most `max_per_server` repairs at once, and is the destination of as many. Helping
  /// with some of the slices counts as that share of a repair; a server with any share of a slot free can help
  /// with one more. An urgent repair finds a slot unless so many are urgent; all others count all.
  explicit SlotTable(uint32_t max_per_server) : max_per_server_(max_per_server) {}

  /// Applies to slots that are yet to be taken.
  void set_limit(uint32_t max_per_server) { max_per_server_ = max_per_server; }
  uint32_t limit() const { return max_per_server_; }

  ServerLoad load(ServerId server) const {
    const auto at = loads_.find(server);
    return at == loads_.end() ? ServerLoad{} : at->second;
  }
  bool can_help(ServerId server, bool urgent = false) const { return can_help(load(server), urgent); }
  bool can_help(const ServerLoad& load, bool urgent = false) const {
    return (urgent ? load.urgent_share : load.helper_share) < max_per_server_ - kRounding;
  }
  bool can_receive(ServerId server, bool urgent = false) const { return can_receive(load(server), urgent); }
  bool can_receive(const ServerLoad& load, bool urgent = false) const {
    return (urgent ? load.urgent_destinations : load.as_destination) < max_per_server_;
  }

  /// Take the slots of one repair, and give them back. REQUIRES: they are free; they were taken.
  void acquire(std::span<const ServerId> helpers, ServerId destination, uint64_t bytes,
               std::span<const double> shares = {}, bool urgent = false);
  void release(std::span<const ServerId> helpers, ServerId destination, uint64_t bytes,
               std::span<const double> shares = {}, bool urgent = false);

  /// The parts of acquire and release, without the requirement: helpers of a degraded read, which waits for nobody, are
  /// counted beyond the limit. `shares`: share of the slices of each helper; empty: each carries all.
  void add_helpers(std::span<const ServerId> helpers, std::span<const double> shares = {},
                   bool urgent = false);
  void remove_helpers(std::span<const ServerId> helpers, std::span<const double> shares = {},
                      bool urgent = false);
  void add_destination(ServerId destination, uint64_t bytes, bool urgent = false);
  void remove_destination(ServerId destination, uint64_t bytes, bool urgent = false);

 private:
  static constexpr double kRounding = 1e-6;

  uint32_t max_per_server_;
  // Busy servers only; never iterated: its order is not deterministic.
  std::unordered_map<ServerId, ServerLoad> loads_;
};

}  // namespace kintsugi::repair_manager
