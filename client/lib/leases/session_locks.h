/// The advisory locks of a session, and who decides about them: this session under a lease, or the metaserver.
#pragma once

#include <cstdint>
#include <set>
#include <span>

#include "client/lib/leases/own_locks.h"
#include "common/proto/inode.pb.h"
#include "common/runtime/clock.h"

namespace kintsugi::client {

/// What was decided here is told with the lease, when that is given back; a metaserver that starts anew is told of
/// all there is.
class SessionLocks {
 public:
  /// After it was told something the metaserver gives no lock that this session may have to others for longer than
  /// this, even if it starts anew meanwhile and hears nothing from here (Leases::kTakeOver).
  static constexpr Duration kDecidesFor = std::chrono::seconds(8);

  /// `takes_over`: those of the process before are asked for. `region`: see OwnLocks.
  SessionLocks(uint64_t session, bool takes_over, std::span<std::byte> region)
      : session_(session), own_(session, region), ask_(takes_over) {}

  OwnLocks& own() { return own_; }
  /// Returns true if the owner has such locks in this session, or may have them from the process before.
  bool has(uint64_t inode, bool whole_file, uint64_t owner) const {
    return ask_ || own_.table().any(InodeId{inode}, whole_file, owner);
  }

  /// kHere: while this session has the lease and takes no longer than kDecidesFor to hear from the metaserver.
  /// kUnclear: Session::tell() has to come first.
  enum class At { kHere, kMetaserver, kUnclear };
  At at(uint64_t inode, bool has_lease, bool takes, TimePoint now) const;
  /// Notes that this session decides: what the metaserver knows of locks there is old. REQUIRES: kHere.
  void decides(uint64_t inode) { decided_.insert(inode); }

  // ---- what is told (Session)
  bool asks() const { return ask_; }
  void add_all(proto::KeepSessionRequest& request) const;
  /// Adds the locks of inodes whose leases are given back; `with_locks`: unless all are in the request already.
  void add_given_back(proto::KeepSessionRequest& request, const std::set<uint64_t>& inodes,
                      bool with_locks) const;
  /// Notes that the metaserver has heard of what was decided there.
  void told_given_back(const std::set<uint64_t>& inodes);
  /// Notes that the metaserver knew all of this session's leases when it was told something at `sent`.
  void heard(TimePoint sent) { decides_until_ = sent + kDecidesFor; }
  /// Takes the answer to a request: the locks that were asked for, or those that were lost.
  void take(bool asked, const proto::KeepSessionResponse& response);

 private:
  const uint64_t session_;
  OwnLocks own_;
  bool ask_;  ///< the locks of the process before are not known yet
  /// Inodes of whose locks the metaserver will be told when their lease is given back.
  std::set<uint64_t> decided_;
  TimePoint decides_until_ = TimePoint::min();
};

}  // namespace kintsugi::client
