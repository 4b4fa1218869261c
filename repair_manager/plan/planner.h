/// Makes plans from what is known at this moment: the servers, who takes part in what, and who failed lately.
#pragma once

#include <map>
#include <set>
#include <vector>

#include "common/proto/repair.pb.h"
#include "common/runtime/runtime.h"
#include "repair_manager/plan/make_plan.h"
#include "repair_manager/plan/options.h"
#include "repair_manager/plan/selection.h"
#include "repair_manager/plan/slots.h"

namespace kintsugi::repair_manager {

/// Chunks of one stripe for which a plan is wanted, and servers to avoid.
struct PlanRequest {
  StripeId stripe;
  std::vector<uint32_t> indexes;    ///< chunks to rebuild; not empty
  std::vector<ServerId> excluded;   ///< servers that are taken only if nothing else is left
  std::vector<ServerId> receiving;  ///< destinations of running repairs of the same stripe
  uint32_t rotation = 0;            ///< see SelectionInput, here and below
  bool urgent = false;
};

class RepairPlanner {
 public:
  /// All outlive it.
  RepairPlanner(const runtime::Runtime& runtime, const Options& options, const ClusterView& view)
      : runtime_(runtime), options_(options), view_(view), slots_(options.max_per_server) {}

  /// Looks at the servers again, if that is some time ago. To be called before plans are made.
  void refresh();
  /// A server came or went: the next refresh() looks.
  void servers_changed() { fresh_until_ = {}; }

  /// The server failed a repair: others are preferred for a while.
  void suspect(ServerId server);
  void forgive(ServerId server) { suspect_until_.erase(server); }
  /// The server had no room for a chunk, whatever it reports: it gets none until it reports more, or for kFullFor.
  static constexpr Duration kFullFor = std::chrono::minutes(10);
  void full(ServerId server);

  SlotTable& slots() { return slots_; }
  const SlotTable& slots() const { return slots_; }
  /// The repair of the plan has ended: others may have its slots.
  /// REQUIRES: the plan was made without a suspension since.
  void take_slots(const RepairPlan& plan);
  void give_back_slots(const RepairPlan& plan);
  const ServerTable& servers() const { return servers_; }
  /// Changes whenever the positions in servers() do.
  uint64_t membership() const { return membership_; }
  bool is_suspect(ServerId server) const { return suspects_.contains(server); }

  /// Plans the repair of chunks that are lost, or `requested` to be rebuilt all the same. kNotFound: no such stripe or
  /// chunk; kConflict: all is available again; else as make_plan.
  Result<RepairPlan> repair(const PlanRequest& request, const PlanWishes& wishes, bool requested) const;
  /// Plans a copy of one chunk from the server where it is. kConflict: it is no longer there; else as make_move_plan.
  Result<RepairPlan> move(const PlanRequest& request, const PlanWishes& wishes, ServerId from) const;
  /// Plans a degraded read of one chunk's range. Errors: as repair() and make_read_plan.
  Result<RepairPlan> read(const PlanRequest& request, const PlanWishes& wishes, ByteRange range) const;

 private:
  /// The servers as the view has them, those that are full without room.
  std::vector<ServerView> look_at_servers();
  PlanBasis basis() const;
  template <class Make>
  Result<RepairPlan> make(const PlanRequest& request, Make make) const;

  runtime::Runtime runtime_;
  const Options& options_;
  const ClusterView& view_;
  SlotTable slots_;
  ServerTable servers_;
  uint64_t membership_ = 0;
  TimePoint fresh_until_{};
  std::map<ServerId, TimePoint> suspect_until_;
  std::set<ServerId> suspects_;
  struct Full {
    uint64_t free_bytes;  ///< free space that it reported when it had no room
    TimePoint until;
  };
  std::map<ServerId, Full> full_;
};

}  // namespace kintsugi::repair_manager
