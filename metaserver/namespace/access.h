/// Who may do what with an inode: mode bits and POSIX access lists, as Linux evaluates them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/status.h"
#include "common/proto/inode.pb.h"
#include "common/proto/store.pb.h"
#include "metaserver/namespace/lookup.h"

namespace kintsugi::metaserver {

inline constexpr uint32_t kMayRead = 4, kMayWrite = 2, kMayExecute = 1;
inline constexpr uint32_t kPermissionBits = 07777, kSetUid = 04000, kSetGid = 02000, kSticky = 01000;
inline constexpr std::string_view kAccessList = "system.posix_acl_access",
                                  kDefaultList = "system.posix_acl_default";

/// For whom something is done.
struct Caller {
  uint32_t uid = 0, gid = 0;
  std::vector<uint32_t> groups;

  static Caller root() { return {}; }
  static Caller from(const proto::Caller& caller);
  bool is_root() const { return uid == 0; }
  bool in_group(uint32_t group) const;
};

/// Ok when the caller may do all of `wanted` (kMayRead…), else kAccessDenied.
Status check_access(const Transaction& transaction, const Caller& caller, InodeId id,
                    const proto::StoredInode& inode, uint32_t wanted);

/// Ok for root, else kNotPermitted: for what is the operator's.
Status check_root(const Caller& caller);

/// An entry of `directory` may be removed or renamed by the caller, as far as its sticky bit is concerned. kNotPermitted.
Status check_sticky(const Caller& caller, const proto::StoredInode& directory,
                    const proto::StoredInode& entry);

/// An access list in the form in which it is kept as an extended attribute (that of the kernel).
struct AccessList {
  enum Tag : uint16_t { kOwner = 1, kUser = 2, kOwningGroup = 4, kGroup = 8, kMask = 16, kOther = 32 };
  struct Item {
    uint16_t tag = 0, permissions = 0;
    uint32_t id = 0;
  };
  std::vector<Item> items;

  /// kInvalidArgument.
  static Result<AccessList> parse(std::string_view bytes);
  std::string serialise() const;
  /// Says no more than nine mode bits can.
  bool is_minimal() const;
  uint32_t mode() const;  ///< the nine bits that it amounts to
  void apply_mode(uint32_t mode);
};

}  // namespace kintsugi::metaserver
