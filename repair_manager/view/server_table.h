/// A picture of the servers at one moment, as planning needs it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "common/base/ids.h"
#include "repair_manager/trees/weighted_tree.h"
#include "repair_manager/view/cluster_view.h"

namespace kintsugi::repair_manager {

/// Counts like this many additional repairs in which the server takes part.
inline constexpr double kAvoidPenalty = 4;
/// Penalty of a server that the monitor has found slow: all others are preferred, whatever they do.
inline constexpr double kFoundSlowPenalty = 2 * kAvoidPenalty;
inline constexpr double kBusyFrom = 0.8;    ///< share of time busy from which a server is avoided; fully at 1
inline constexpr double kVeryLoaded = 0.5;  ///< share of its link that a server's users need
/// Slower than this share of the usual rate is slow; no server counts as in more than kMaxSlowPenalty repairs
/// for it.
inline constexpr double kSlowLink = 0.8, kMaxSlowPenalty = 8;

class ServerTable {
 public:
  ServerTable() = default;
  explicit ServerTable(std::vector<ServerView> servers);

  const ServerView* find(ServerId id) const;  ///< null: the server is not known
  std::optional<size_t> position(ServerId id) const;
  /// What people call the server; its id when it is unknown or has no name.
  std::string name_of(ServerId id) const;
  std::span<const ServerView> all() const { return servers_; }
  /// Racks are numbered in the order of their first servers.
  uint32_t rack_of(size_t position) const { return racks_[position]; }
  size_t racks() const { return rack_count_; }
  size_t alive_racks() const { return alive_racks_; }
  /// "host:port", as a tree names it.
  const std::string& address_text(size_t position) const { return addresses_[position]; }
  /// Positions i, i + stride, i + 2 * stride, ... (modulo the number of servers) meet every server.
  size_t stride() const { return stride_; }

  /// The median of the known link rates; 0: none is known.
  LinkRate usual_link() const { return usual_link_; }
  /// Returns the rate that a server's link has for repairs: its own (the usual one if that is unknown, or else
  /// `otherwise` both ways) less what its users take, but at least kLeastRepairShare of it, and
  /// no more than the server lets repairs have.
  LinkRate link(const ServerView& server, double otherwise) const;

  /// How much a server is to be avoided for its slow link, in repairs that it might take part in.
  double slow_penalty(const ServerView& server) const;
  /// How much a server is to be avoided for its busy CPU, disks and users, and for being found slow, in the same unit.
  double busy_penalty(const ServerView& server) const;

  static constexpr double kLeastRepairShare = 0.125;

 private:
  std::vector<ServerView> servers_;  // ordered by id, so that ties are resolved alike in every run
  std::vector<uint32_t> racks_;      // index: server
  std::vector<std::string> addresses_;
  LinkRate usual_link_;
  size_t stride_ = 1;
  std::unordered_map<ServerId, size_t> by_id_;
  size_t rack_count_ = 0, alive_racks_ = 0;
};

}  // namespace kintsugi::repair_manager
