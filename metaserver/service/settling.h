/// Waits until clients have given back what they keep back: the only way to settle what names and paths lead to, and
/// several inodes of which one depends on another.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/asio/awaitable.hpp>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/proto/inode.pb.h"
#include "common/runtime/runtime.h"
#include "metaserver/namespace/lookup.h"
#include "metaserver/schema/transaction.h"
#include "metaserver/sessions/leases.h"

namespace kintsugi::metaserver {

/// Collects the inodes of which another client may keep something back now. What a name in a leased directory leads to
/// is known only to the lease's owner, so it is looked up after that lease has come back.
class Unsettled {
 public:
  Unsettled(const Reader& reader, const Leases& leases) : reader_(reader), leases_(leases) {}

  /// Adds the inode if it is not settled. `session` may keep something back of it; 0: nobody may.
  void inode(InodeId inode, uint64_t session);
  /// Adds the directory, and the directory that this name in it stands for, as far as they are not settled.
  void name(InodeId directory, std::string_view name, uint64_t session);
  /// Adds the first directory of the path that is not settled: nobody may keep anything back of them.
  void directories_of(std::string_view path);
  /// Adds the first directory of the path that is not settled; if there is none, what the path leads to, of which
  /// `session` may keep something back.
  void path(std::string_view path, uint64_t session);
  /// Adds the inodes that a page of a listing names and that are not settled.
  void entries(const proto::ListResponse& page, uint64_t session);
  /// Adds the inode, when it is to get a name in the directory `to` and that is below a quota: nobody may keep anything
  /// back there.
  void into_quota(InodeId inode, InodeId to);
  /// Adds the inode that has this name now, when it is to get a name in `to` and that is below a quota.
  void into_quota(InodeId from, std::string_view name, InodeId to);
  /// Adds the inode at the path `from`, when the directory above `to` is below a quota.
  void into_quota(std::string_view from, std::string_view to);

  bool empty() const { return found_.empty(); }
  std::vector<Leases::Wanted> take() { return std::move(found_); }

 private:
  /// Returns what the path leads to; nothing when that is not there, or a directory on the way is unsettled.
  std::optional<InodeId> follow(std::string_view path);

  const Reader& reader_;
  const Leases& leases_;
  std::vector<Leases::Wanted> found_;
};

/// There may be changes between two rounds of a wait, so that each round asks anew what is unsettled, and the wait is
/// over when nothing is, in one turn.
class Settling {
 public:
  /// Rounds of one call: after so many the inodes are in use all the time.
  static constexpr int kMaxRounds = 64;

  /// References outlive it.
  Settling(const runtime::Runtime& runtime, const KeyValueStore& store, Leases& leases)
      : executor_(runtime.executor), reader_(store), leases_(leases) {}

  /// Returns once `find(Unsettled&)` finds nothing. kUnavailable.
  template <class Find>
  asio::awaitable<Status> until_none(Context context, const Find& find) {
    for (int round = 0;; ++round) {
      Unsettled unsettled(reader_, leases_);
      find(unsettled);
      if (unsettled.empty()) co_return Status{};
      std::vector<Leases::Wanted> wanted = unsettled.take();
      if (round == kMaxRounds)
        co_return Status{Code::kUnavailable,
                         fmt::format("inode {} is in use by other clients", wanted.front().inode)};
      KINTSUGI_CO_TRY(co_await leases_.settle(context, std::move(wanted)));
    }
  }
  /// Waits until nobody keeps anything back of the directories of the path, nor of the one that it leads to.
  asio::awaitable<Status> directories_of(Context context, std::string path);
  /// Waits until nobody keeps back anything of what lies below the directory and was closed before. Who is asked to
  /// give something back and does not within Leases::kTakeOver has lost it.
  asio::awaitable<Status> below(Context context, std::string path);

  /// Notes what the transaction moves, when it is about to be committed: whoever walks the tree meanwhile has to know
  /// of it.
  void follow(const Transaction& transaction) { moves_ += transaction.moved ? 1 : 0; }
  /// Returns how many transactions have moved something from one directory to another since the start.
  uint64_t moves() const { return moves_; }

 private:
  /// Returns what lies below the directory, or is it, and is leased, in the turn in which this returns.
  asio::awaitable<std::vector<InodeId>> leased_below(InodeId directory) const;
  /// After so many walks all leases are looked at in one turn: something is granted or moved all the time.
  static constexpr int kMaxWalks = 4;

  const asio::any_io_executor executor_;
  const Reader reader_;
  Leases& leases_;
  uint64_t moves_ = 0;
};

}  // namespace kintsugi::metaserver
