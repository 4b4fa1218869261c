/// Trash: what loses its last name below a directory that has one moves to `.trash` in that directory, and is gone
/// only after a time. `.trash` is a directory like others; beside it stands, for each entry, where it was and since
/// when it is there.
///
/// Kept are files, symbolic links and directories that are removed with their content. Removed at once is what lies in
/// the trash, an empty directory, what gives way to something else under its name, and what snapshots or the lack of
/// room in the trash do not let move.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/proto/meta.pb.h"
#include "common/proto/store.pb.h"
#include "metaserver/namespace/lookup.h"
#include "metaserver/schema/stripes.h"
#include "metaserver/schema/transaction.h"

namespace kintsugi::metaserver {

class Inodes;

inline constexpr size_t kMaxTrashes = 1000;
inline constexpr std::string_view kTrashName = ".trash";

/// Changes are made in transactions; what is in memory follows those that are handed to the store.
class Trash {
 public:
  void load(const Reader& reader);
  /// REQUIRES: the transaction is handed to the store before anything else runs.
  void follow(const Transaction& transaction);

  /// kNotFound, kNotDirectory, kLimitExceeded, kInvalidArgument. Retention 0: nothing is kept any more, and what was
  /// kept is removed.
  Status set(Transaction& transaction, const Inodes& inodes, std::string_view path,
             int64_t retention_ns) const;

  /// The directory whose trash takes what is removed from `parent`; none.
  std::optional<InodeId> taker(const Transaction& transaction, InodeId parent) const;
  /// `.trash` of a directory, if it is there.
  std::optional<InodeId> bin(const Transaction& transaction, InodeId directory) const;
  /// The name of something in a trash.
  static std::string entry_name(std::string_view name, InodeId id, int64_t now_ns);
  /// Notes that something came into the trash.
  static void note(Transaction& transaction, InodeId directory, const std::string& entry,
                   const proto::StoredTrashed& trashed);

  // ---- for people
  Result<proto::ListTrashResponse> list(const Transaction& transaction, std::string_view path,
                                        std::string_view after, uint32_t limit) const;
  /// The directory that restore() would put it into, as far as that is known.
  std::optional<InodeId> destination(const Reader& reader, const proto::RestoreTrashRequest& request) const;
  Result<std::string> restore(Transaction& transaction, const Inodes& inodes,
                              const proto::RestoreTrashRequest& request, FreedStripes& freed) const;
  using Held = std::function<bool(InodeId)>;
  /// Removes an entry; of all when `entry` is empty some of them, and the response says whether there are more.
  Result<bool> empty(Transaction& transaction, const Inodes& inodes, std::string_view path,
                     std::string_view entry, const Held& held, FreedStripes& freed) const;

  /// One bounded step of removing what was kept for its time. False: nothing is due.
  bool expire_step(Transaction& transaction, const Inodes& inodes, const Held& held, FreedStripes& freed);

 private:
  /// Makes `.trash` of a directory, unless it is there, and notes it in `trash`, which it stores.
  static Status make_bin(Transaction& transaction, const Inodes& inodes, InodeId directory,
                         proto::StoredTrash trash);
  bool lies_in_bin(const Reader& reader, InodeId directory) const;
  Result<InodeId> nearest(const Reader& reader, std::string_view path) const;
  /// Removes entries for good, as far as they are still what came into the trash.
  void remove(Transaction& transaction, const Inodes& inodes, InodeId directory,
              const std::vector<std::string>& entries, const Held& held, FreedStripes& freed) const;

  std::map<InodeId, proto::StoredTrash> all_;
  InodeId expiring_;  ///< directory whose entries the last expire_step removed; none if it removed nothing
  std::string expired_up_to_;  ///< key of the last removed entry
};

}  // namespace kintsugi::metaserver
