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
  uint64_t incoming_bytes = 0;  ///< of chunks being repaired onto it
  uint32_t repairs() const { return as_helper + as_destination; }
};

class SlotTable {
 public:
  /// Each server helps in at most `max_per_server` repairs at once, and is the destination of as many.
  explicit SlotTable(uint32_t max_per_server) : max_per_server_(max_per_server) {}

  /// Of slots that are yet to be taken.
  void set_limit(uint32_t max_per_server) { max_per_server_ = max_per_server; }
  uint32_t limit() const { return max_per_server_; }

  ServerLoad load(ServerId server) const {
    const auto at = loads_.find(server);
    return at == loads_.end() ? ServerLoad{} : at->second;
  }
  bool can_help(ServerId server) const { return load(server).as_helper < max_per_server_; }
  bool can_receive(ServerId server) const { return can_receive(load(server)); }
  bool can_receive(const ServerLoad& load) const { return load.as_destination < max_per_server_; }

  /// Takes the slots of one repair (asserted: they are free), and gives them back.
  void acquire(std::span<const ServerId> helpers, ServerId destination, uint64_t bytes);
  void release(std::span<const ServerId> helpers, ServerId destination, uint64_t bytes);

  /// The parts of it. Helpers of a degraded read are counted beyond the limit: it waits for nobody.
  void add_helpers(std::span<const ServerId> helpers);
  void remove_helpers(std::span<const ServerId> helpers);
  void add_destination(ServerId destination, uint64_t bytes);
  void remove_destination(ServerId destination, uint64_t bytes);

 private:
  uint32_t max_per_server_;
  std::unordered_map<ServerId, ServerLoad> loads_;  // busy servers only; never iterated
};

}  // namespace kintsugi::repair_manager
