/// A metaserver with what tests do to directories that have quotas, trash and snapshots.
#pragma once

#include "metaserver/namespace/lookup.h"
#include "metaserver/namespace/reclaim.h"
#include "tests/metaserver/snapshot_rig.h"

namespace kintsugi::metaserver {

class DirectoryRig : public SnapshotRig {
 public:
  using SnapshotRig::SnapshotRig;

  // ---- quotas
  Status set_quota(const std::string& path, std::optional<uint64_t> max_bytes,
                   std::optional<uint64_t> max_files) {
    proto::SetQuotaRequest request;
    request.set_path(path);
    if (max_bytes) request.set_max_bytes(*max_bytes);
    if (max_files) request.set_max_files(*max_files);
    return status_of(call<proto::Empty>(rpc::Method::kSetQuota, request));
  }
  Status unset_quota(const std::string& path) { return set_quota(path, std::nullopt, std::nullopt); }
  std::vector<proto::Quota> quotas_at(const std::string& path) {
    proto::GetQuotasRequest request;
    request.set_path(path);
    const auto answer = call<proto::GetQuotasResponse>(rpc::Method::kGetQuotas, request);
    EXPECT_TRUE(answer) << answer.error();
    return {answer->quotas().begin(), answer->quotas().end()};
  }
  proto::Quota nearest_quota(const std::string& path) {
    const auto quotas = quotas_at(path);
    EXPECT_FALSE(quotas.empty());
    return quotas.empty() ? proto::Quota{} : quotas.front();
  }
  std::vector<proto::Quota> quotas() {
    const auto answer = call<proto::ListQuotasResponse>(rpc::Method::kListQuotas, proto::ListQuotasRequest{});
    EXPECT_TRUE(answer) << answer.error();
    if (!answer) return {};
    return {answer->quotas().begin(), answer->quotas().end()};
  }
  /// What counts for the quota of a directory: the bytes and number of the inodes that a walk finds below it, and below directories
  /// that were removed while somebody had them open, or might have had after a restart: those go only when nobody has any more. A
  /// file that had several names counts for one of them, and says for which.
  std::pair<uint64_t, uint64_t> count(InodeId directory) {
    std::map<uint64_t, uint64_t> bytes;
    count(directory, bytes);
    for (const auto& [key, value] : inode_records()) {
      const auto inode = Reader::parse<proto::StoredInode>(value);
      const InodeId id{keys::first_id(key)};
      if (!counts_for(inode, directory)) continue;
      if (inode.linked() && inode.links() > 0) bytes[id.value] = inode.used_bytes();
      if (!is_directory(inode) || Reader(*store).get(keys::orphan(id)) != kHeldOrphan) continue;
      bytes[id.value] = 0;
      count(id, bytes);
    }
    uint64_t sum = 0;
    for (const auto& [id, used] : bytes)
      sum += used;
    return {sum, bytes.size()};
  }
  using SnapshotRig::count;
  /// REQUIRES: what counts in the background has had its time.
  void expect_exact_quotas() {
    for (const proto::Quota& quota : quotas()) {
      const auto [bytes, files] = count(InodeId{quota.directory()});
      EXPECT_EQ(quota.bytes(), bytes) << quota.path() << counting(InodeId{quota.directory()});
      EXPECT_EQ(quota.files(), files) << quota.path() << counting(InodeId{quota.directory()});
      EXPECT_FALSE(quota.counting()) << quota.path();
    }
  }

  // ---- trash
  Status set_trash(const std::string& path, int64_t retention_ns) {
    proto::SetTrashRequest request;
    request.set_path(path);
    request.set_retention_ns(retention_ns);
    return status_of(call<proto::Empty>(rpc::Method::kSetTrash, request));
  }
  std::vector<proto::Trashed> trash(const std::string& path) {
    proto::ListTrashRequest request;
    request.set_path(path);
    const auto answer = call<proto::ListTrashResponse>(rpc::Method::kListTrash, request);
    EXPECT_TRUE(answer) << answer.error();
    if (!answer) return {};
    return {answer->entries().begin(), answer->entries().end()};
  }
  Result<std::string> restore_trash(const std::string& path, const std::string& entry,
                                    const std::string& to = "") {
    proto::RestoreTrashRequest request;
    request.set_path(path);
    request.set_entry(entry);
    request.set_to(to);
    const auto answer = call<proto::RestoreTrashResponse>(rpc::Method::kRestoreTrash, request);
    if (!answer) return answer.error();
    return answer->path();
  }
  Status empty_trash(const std::string& path, const std::string& entry = "") {
    proto::EmptyTrashRequest request;
    request.set_path(path);
    request.set_entry(entry);
    return status_of(call<proto::Empty>(rpc::Method::kEmptyTrash, request));
  }

 private:
  /// What says that it counts for the quota of a directory.
  std::string counting(InodeId directory) {
    std::string all;
    for (const auto& [key, value] : inode_records()) {
      const auto inode = Reader::parse<proto::StoredInode>(value);
      if (counts_for(inode, directory))
        all += fmt::format("\n{}: type {} links {} linked {} parent {} quota {} size {}", keys::first_id(key),
                           inode.type(), inode.links(), inode.linked(), inode.parent(), inode.quota(),
                           inode.size());
    }
    return all;
  }
  bool counts_for(const proto::StoredInode& inode, InodeId directory) {
    uint64_t quota = inode.quota();
    while (quota != 0 && quota != directory.value) {
      const auto stored = Reader(*store).get_message<proto::StoredQuota>(keys::quota(InodeId{quota}));
      EXPECT_TRUE(stored) << "an inode counts for a quota that is not there";
      quota = stored ? stored->above() : 0;
    }
    return quota != 0;
  }
  void count(InodeId directory, std::map<uint64_t, uint64_t>& bytes) {
    store->scan(keys::entries(directory).begin, keys::entries(directory).end,
                [&](std::string_view, std::string_view value) {
                  const InodeId id{Reader::parse<proto::StoredDirectoryEntry>(value).inode()};
                  const auto child = load_inode(*store, id);
                  if (!child.linked()) bytes[id.value] = child.used_bytes();
                  if (is_directory(child)) count(id, bytes);
                  return true;
                });
  }
};

}  // namespace kintsugi::metaserver
