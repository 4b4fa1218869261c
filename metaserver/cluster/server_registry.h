/// The servers of the cluster, and which of them are alive.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/proto/meta.pb.h"
#include "common/proto/store.pb.h"
#include "common/runtime/runtime.h"
#include "metaserver/cluster/hung_disks.h"
#include "metaserver/cluster/options.h"
#include "metaserver/cluster/server_names.h"
#include "metaserver/schema/transaction.h"

namespace kintsugi::metaserver {

using Liveness = proto::ServerState::Liveness;

struct ServerRecord {
  ServerId id;
  proto::StoredServer stored;
  Liveness liveness = proto::ServerState::SUSPECT;
  /// It has registered since this metaserver started and since it was last declared dead.
  bool registered = false;
  TimePoint last_heartbeat;      ///< start of this metaserver if there was no heartbeat yet
  proto::HeartbeatRequest load;  ///< contents of the latest heartbeat
  HungDisks hung_disks;          ///< disks that heartbeats since the registration called hung
  bool wants_block_report = true;
  /// When the metaserver asks for a block report that the server has not sent by itself.
  TimePoint block_report_due;
  TimePoint registered_at;   ///< time of the latest registration with this metaserver
  bool first_report = true;  ///< no block report has ended since the registration
  /// When it last reported the loss of a chunk that no stripe places there; min(): never.
  TimePoint lost_early = TimePoint::min();
  /// Latest time at which it was unknown whether a chunk placed on the server is there; min(): never.
  TimePoint last_doubt = TimePoint::min();
  /// When to ask for another block report, because an earlier one left something undecided; max(): never.
  TimePoint report_again = TimePoint::max();
  /// When a block report may clear a chunk that a reader complained of, so that one is asked for; max(): never.
  TimePoint believe_again = TimePoint::max();
  uint32_t newest_format = 0;  ///< the newest format that its program said it knows when it registered
  Duration clock_ahead{};      ///< the server's wall clock minus the metaserver's
  bool clock_told = false;     ///< the log has a line that its clock differs
};

inline constexpr size_t kMaxServers = 10000;
inline constexpr int kMaxSupersededIncarnations = 16;
inline constexpr size_t kMaxAddressBytes = 300;
inline constexpr size_t kPeerTries = 16;

/// A server is alive while it heartbeats, suspect after `suspect_after` without a heartbeat or when its process seems
/// to have ended, dead after `dead_after` without a heartbeat. Number, name, address, rack and incarnation are
/// durable: after a restart all known servers are suspect until they register, and dead when they have not within
/// `dead_after`.
class ServerRegistry {
 public:
  /// References must outlive it.
  ServerRegistry(const MetaServerOptions& options, const runtime::Clock& clock)
      : options_(options), clock_(clock) {}

  void load(const Reader& reader);
  /// Takes over that servers are drained or removed. REQUIRES: the transaction is handed to the store before anything
  /// else runs.
  void follow(const Transaction& transaction);

  /// Puts what must be durable into the transaction. Returns what the server counted as until now, or kReplaces:
  /// nothing has changed, since the request does not name the incarnation whose place it would take. kAlreadyExists,
  /// here and below: a later process with this id has registered since. kNotFound: the server was removed while this
  /// process ran. No other refusal that a server is sent, whatever it asked, has one of these two codes.
  enum class Before { kUnknown, kLiving, kDead, kReplaces };
  Result<Before> register_server(Transaction& transaction, const proto::RegisterServerRequest& request);

  /// False, here and below: no such server.
  bool set_draining(Transaction& transaction, ServerId id, bool draining) const;
  /// The server may be away until this time of the metaserver's wall clock; WallTime{} ends that.
  bool set_maintenance(Transaction& transaction, ServerId id, WallTime until) const;
  /// The rest of the server's maintenance, at most kMaxMaintenance; zero: it is in none.
  Duration maintenance_left(const ServerRecord& server) const;
  bool in_maintenance(const ServerRecord& server) const {
    return maintenance_left(server) > Duration::zero();
  }
  /// Forgets the server. Its process must be started again to join again: what it says until then is refused.
  void remove(Transaction& transaction, ServerId id) const;
  Status check_removed(ServerId id, uint64_t incarnation) const;

  enum class Verdict { kAccepted, kRegisterAgain };
  /// Errors as above; kConflict: a later heartbeat of the process came before. kRegisterAgain: not known since the start
  /// of this metaserver.
  Result<Verdict> heartbeat(const proto::HeartbeatRequest& request);

  /// The server's process seems to have ended: if it is alive, it is suspect until its next heartbeat. `why` is for
  /// people. One that says that it is being stopped is suspect as well.
  void suspect(ServerId id, std::string_view why);
  /// The server is not dead, but whether it can be read from is not known: it is suspect, or its silence is half way
  /// from one missed heartbeat to that.
  bool silent(const ServerRecord& server) const;

  /// Declares suspects and deaths that are due, and returns who died. To be called a few times in a heartbeat interval:
  /// a longer pause means that this process stood still, and is not held against the servers.
  std::vector<ServerId> check_liveness();

  const ServerRecord* find(ServerId id) const;
  ServerRecord* find(ServerId id);
  /// Ordered by id.
  const std::map<ServerId, ServerRecord>& servers() const { return servers_; }
  /// What people call the servers, also those that were removed.
  const ServerNames& names() const { return names_; }
  std::string name_of(ServerId id) const { return names_.name(id); }
  bool is_dead(ServerId id) const;
  /// The address of a server that is alive, and not `asking`; nearly every one is as likely as any other. Empty: none
  /// was found quickly.
  std::string random_peer(ServerId asking, runtime::Random& random) const;
  proto::ServerState state_of(const ServerRecord& server) const;
  size_t count(Liveness liveness) const;

 private:
  void compare_clocks(ServerRecord& server, int64_t its_wall_ns) const;
  Status check_incarnation(ServerId id, const proto::StoredServer& stored, uint64_t incarnation) const;

  const MetaServerOptions& options_;
  const runtime::Clock& clock_;
  std::map<ServerId, ServerRecord> servers_;
  /// Records of removed servers, without address, so that their calls are refused.
  std::map<ServerId, proto::StoredServer> removed_;
  ServerNames names_;
  TimePoint last_check_ = TimePoint::min();
};

}  // namespace kintsugi::metaserver
