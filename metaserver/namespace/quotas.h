/// Limits on what may be below a directory: bytes of files and numbers of files, directories and all else that has an
/// inode.
///
/// Each inode names the quota that it counts for, and gets it from the directory that it is made in or moved to; so
/// what an operation changes is known without a look at the directories above, and costs nothing where there is no
/// quota. A quota counts for the one above it, too. Usage changes in the batch that changes the inodes.
///
/// When a directory that is not empty gets or loses a quota, what is below still names the former one. A background
/// task renames it in bounded steps: a directory whose content is not done yet stands under keys::Kind::kUnmarked. At
/// any moment usage is exactly what the inodes name, so nothing is lost or counted twice by changes that come
/// meanwhile.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/proto/meta.pb.h"
#include "common/proto/store.pb.h"
#include "metaserver/schema/transaction.h"

namespace kintsugi::metaserver {

inline constexpr size_t kMaxQuotas = 10'000;
inline constexpr int kMaxNestedQuotas = 16;
inline constexpr uint32_t kMaxListedQuotas = 1000;

/// The directory at or above this one whose quota limits what is in it, by how directories lie; 0: none does.
uint64_t limiting_quota(const Transaction& transaction, InodeId directory);

/// `inode`, which the caller stores, goes to a directory whose content counts for another quota. `one_limit`: the same
/// quota limits what is in either directory, and only its count is not complete. Else a directory with something in it
/// and a file of several names stay where they are: kCrossDevice.
Status move_across_quotas(Transaction& transaction, InodeId id, proto::StoredInode& inode, uint64_t quota,
                          bool one_limit);
/// `inode`, which the caller stores, gets another name in a directory whose content counts for `quota`. kCrossDevice.
Status link_across_quotas(const Transaction& transaction, proto::StoredInode& inode, uint64_t quota);

/// Changes are made in transactions; what is in memory follows those that are handed to the store.
class Quotas {
 public:
  void load(const Reader& reader);
  /// REQUIRES: the transaction is handed to the store before anything else runs.
  void follow(const Transaction& transaction);

  /// Sets the limits of a directory; neither: it has no quota any more. kNotFound, kNotDirectory, kLimitExceeded.
  Status set(Transaction& transaction, std::string_view path, std::optional<uint64_t> max_bytes,
             std::optional<uint64_t> max_files) const;

  /// Counts what the transaction makes of inodes, once for each transaction, after the last change of an inode.
  /// kQuota: a quota would be exceeded by more than before; the transaction must be dropped. `enforced` false: it is
  /// only counted.
  Status account(Transaction& transaction, bool enforced = true) const;

  /// The quotas that limit what is at an inode, the nearest first.
  static Result<proto::GetQuotasResponse> at(const Transaction& transaction, InodeId id);
  static proto::ListQuotasResponse list(const Reader& reader, uint64_t after, uint32_t limit);

  /// One bounded step of the work that quotas of directories with content leave, still to be counted. False: there is
  /// none.
  bool mark_step(Transaction& transaction);

 private:
  bool any_ = false;       ///< whether there may be quotas
  bool counting_ = false;  ///< some quota may still be marked as being counted
};

}  // namespace kintsugi::metaserver
