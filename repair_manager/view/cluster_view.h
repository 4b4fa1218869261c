/// The repair manager's window on the cluster; its host (RepairDaemon, or a test) implements it. Through it
/// the repair manager stays a library that knows no metaserver.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/proto/chunk.pb.h"
#include "common/runtime/clock.h"
#include "common/runtime/context.h"
#include "common/runtime/network.h"

namespace kintsugi::repair_manager {

struct ServerView {
  ServerId id;
  std::string name;  ///< name for people; empty: the id is all that is known
  runtime::Endpoint address;
  std::string rack;
  bool alive = false;  ///< neither suspect nor dead
  uint64_t free_bytes = 0;
  uint64_t user_bytes_per_second = 0;
  uint64_t up_bytes_per_second = 0, down_bytes_per_second = 0;  ///< rate of its link; 0: unknown
  /// Limit for what repairs may send, and for what they may receive; 0: no limit.
  uint64_t repair_limit_bytes_per_second = 0;
  double busy = 0;        ///< share of its time that CPU or disks were busy, 0..1
  bool draining = false;  ///< whether it must not be a destination
  /// The monitor found it slower than its peers, or it is in maintenance: others are preferred.
  bool slow = false;
  Duration maintenance_left{};  ///< it is expected back within this time; zero: it is not in maintenance
};

struct ChunkView {
  uint32_t index = 0;
  ServerId server;         ///< none: the chunk is on no server
  uint64_t length = 0;     ///< bytes
  uint32_t crc = 0;        ///< CRC32C of the whole chunk, as written
  bool available = false;  ///< whether its server is alive and has not reported it lost
  bool lost = false;       ///< it was reported lost: its server's return does not bring it back
  bool cached = false;     ///< the chunk is in its server's memory, according to heartbeats
  float heat = 0;          ///< how often it is read (proto::CacheChange); also known for a lost chunk
};

struct StripeView {
  StripeId id;
  std::string policy;
  uint64_t length = 0;            ///< user bytes
  std::vector<ChunkView> chunks;  ///< k+m, by index
};

class ClusterView {
 public:
  virtual ~ClusterView() = default;

  virtual std::vector<ServerView> servers() const = 0;
  /// What people call a server, also one that is not there any more; its id when that is all that is known.
  virtual std::string name_of(ServerId server) const { return fmt::format("{}", server); }
  /// nullopt: deleted meanwhile, or another repair manager's. REQUIRES: fetched(id).
  virtual std::optional<StripeView> stripe(StripeId id) const = 0;

  /// Returns true if stripe() is up to date for this stripe: for a bounded time after fetch(). Planners ask before each
  /// stripe(), with no suspension in between.
  virtual bool fetched(StripeId) const { return true; }
  /// Fetches these stripes, no more than kMaxFetched at once. After an error a later try may go well.
  virtual asio::awaitable<Status> fetch(Context, std::vector<StripeId>) { co_return Status{}; }
  static constexpr size_t kMaxFetched = 4096;

  /// The server is to delete an older copy of this chunk: until it did, a new one there would go with it.
  virtual bool deletion_pending(ChunkId chunk, ServerId server) const = 0;

  /// How far this process's wall clock is ahead of the metaserver's, by which capabilities expire.
  virtual Duration clock_ahead() const { return {}; }
  /// Signs an operation on one chunk (see rpc::ChunkOperations), for trees and their roots to show.
  virtual std::string capability(ChunkId chunk, uint32_t operations, WallTime expiry) const = 0;

  /// Has `destination` rebuild the chunk, to the end: the only way in which it is asked to. Ends when the
  /// context's deadline passes and when the manager's host stops. Another execute() of the same chunk may
  /// begin before, after give_up().
  virtual asio::awaitable<Result<proto::RepairChunkResponse>> execute(Context context,
                                                                      runtime::Endpoint destination,
                                                                      proto::RepairChunkRequest request) = 0;

  /// Nobody waits for execute() of this repair any more: has `destination` end it, if it still runs there.
  /// Without this it ends at its own deadline.
  virtual asio::awaitable<void> give_up(Context, runtime::Endpoint, proto::EndRepairRequest) { co_return; }

  /// The chunk was proven and is durable on `server`: make that its place, if the stripe still exists and the
  /// chunk is still where `expected_old` says (else kConflict: the copy is garbage). Durable on return.
  virtual asio::awaitable<Status> commit_repair(Context context, ChunkId chunk, ServerId expected_old,
                                                ServerId server) = 0;

  /// A helper or reader found this chunk unreadable: it no longer counts as available.
  virtual void report_lost(ChunkId chunk, ServerId server, const std::string& why) = 0;
};

}  // namespace kintsugi::repair_manager
