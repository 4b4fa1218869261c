/// Has requests followed into the processes that they reach, while this one is traced (common/rpc/follower.h).
#pragma once

#include <array>
#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/rpc/follower.h"
#include "tracing/repository/recorded_arguments.h"

namespace kintsugi::tracing {

/// Which requests are followed for an owner, and what the next process is told.
struct FollowTerms {
  uint32_t hops = 0;        ///< processes further
  bool everything = false;  ///< every request that comes is followed
  bool own_work = false;    ///< what this process asks for on its own account is
  /// Requests of this method are; others only when somebody says that they come (expect).
  std::optional<rpc::Method> method;
  uint64_t bytes = 0;  ///< memory of a trace
  bool circular = false;
  std::vector<RecordedValues> recorded;
  std::chrono::steady_clock::time_point deadline;
};

/// Each owner has a place here, whose number is its bit in Context::followed. The place stays its own after its recording has ended,
/// until all other ended ones have been given away: what goes on meanwhile for its requests is not taken for another owner's.
class Following final : public rpc::Follower {
 public:
  static constexpr size_t kPlaces = 32;
  /// Calls of an owner that were announced and have not come, and peers that are remembered.
  static constexpr size_t kMostExpected = 4096, kMostPeers = 1024;

  static Following& of_process();

  /// Requests are followed for this owner from now on. REQUIRES: fewer than kPlaces others are active; the owner is not 0.
  void begin(uint64_t owner, FollowTerms terms);
  /// They are not followed any more; 0: nobody's are. What is known of its peers stays.
  void end(uint64_t owner);
  /// This call comes next and is followed. kConflict: the owner's recording has ended. kLimitExceeded.
  Status expect(uint64_t owner, uint64_t connection, uint64_t call);

  /// Requests of the owner that came, or that this process began on its own account; 0: of all who are active.
  uint64_t requests(uint64_t owner) const;
  /// Peers that were asked to follow a call: their addresses, and what came of it; 0: for all who are active.
  std::map<std::string, Status> peers(uint64_t owner) const;

  uint32_t follows(const rpc::CallName& call) override;
  uint32_t follows_own_work() override;
  std::vector<rpc::Announcement> announcements(const std::string& peer, const rpc::CallName& call,
                                               uint32_t followed) override;
  void announced(const std::string& peer, uint64_t owner, const Status& answer) override;

 private:
  struct Place {
    uint64_t owner = 0;  ///< 0: nobody's
    uint64_t turn = 0;   ///< the lower, the earlier it was given away
    bool active = false;
    FollowTerms terms;
    uint64_t requests = 0;
    std::set<std::pair<uint64_t, uint64_t>> expected;  ///< connection, call
    std::map<std::string, Status> peers;

    bool follows(const rpc::CallName& call);
    /// Empty: the peer is not asked.
    std::string announcement(const std::string& peer, const rpc::CallName& call);
    bool is_told_of(uint64_t whose) const { return whose == 0 ? active : owner == whose; }
  };
  Place* find(uint64_t owner);
  /// The bits of those active places for which `wants` holds; their requests are counted.
  template <class Wants>
  uint32_t count(Wants wants);

  mutable std::mutex mutex_;
  uint64_t turns_ = 0;
  std::array<Place, kPlaces> places_;
};

}  // namespace kintsugi::tracing
