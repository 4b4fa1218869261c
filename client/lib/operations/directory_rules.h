/// Quotas, snapshots and trash of directories.
#pragma once

#include <optional>
#include <string>

#include <boost/asio/awaitable.hpp>

#include "client/lib/operations/cluster_client.h"
#include "common/proto/meta.pb.h"

namespace kintsugi::client {

/// A part of Client, which says what holds for paths and errors.
class DirectoryRules {
 public:
  /// Without limits: the directory has no quota any more.
  asio::awaitable<Status> set_quota(std::string path, std::optional<uint64_t> max_bytes,
                                    std::optional<uint64_t> max_files);
  /// The quotas that limit what is at a path, the nearest first; with an inode, the quotas that limit what is at the
  /// inode (`within`: as a part of that work).
  asio::awaitable<Result<proto::GetQuotasResponse>> quotas_at(std::string path);
  asio::awaitable<Result<proto::GetQuotasResponse>> quotas_of(uint64_t inode,
                                                              std::optional<Context> within = {});
  /// One page of all: continue after its last directory while `more`.
  asio::awaitable<Result<proto::ListQuotasResponse>> list_quotas(uint64_t after = 0);

  /// Everything below the directory as it is now can be read below PATH/.snapshots/NAME until the snapshot is deleted.
  asio::awaitable<Status> create_snapshot(std::string path, std::string name);
  asio::awaitable<Status> delete_snapshot(std::string path, std::string name);
  /// The snapshots of a directory, or of all when `path` is empty; the oldest first.
  asio::awaitable<Result<proto::ListSnapshotsResponse>> list_snapshots(std::string path = "");

  /// What is removed below the directory can be restored for so long; zero: it is gone at once.
  asio::awaitable<Status> set_trash(std::string path, Duration retention);
  /// One page of what lies in the trash of the nearest directory that has one: continue after its last entry while
  /// `more`.
  asio::awaitable<Result<proto::ListTrashResponse>> list_trash(std::string path, std::string after = "");
  /// Moves an entry of the trash to where it was, or to `to`; returns where it is now, or no path when the call had to
  /// be repeated and the entry is where it was.
  asio::awaitable<Result<proto::RestoreTrashResponse>> restore_trash(std::string path, std::string entry,
                                                                     std::string to = "");
  /// Removes one entry, or all when it is empty.
  asio::awaitable<Status> empty_trash(std::string path, std::string entry = "");

 protected:
  /// The cluster client outlives every operation.
  explicit DirectoryRules(ClusterClient& cluster) : cluster_(cluster) {}
  ~DirectoryRules() = default;

 private:
  ClusterClient& cluster_;
};

}  // namespace kintsugi::client
