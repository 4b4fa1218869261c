/// Access checks of inodes: the rules of common/posix with what is stored.
#pragma once

#include <cstdint>
#include <string_view>

#include "common/base/status.h"
#include "common/posix/access_list.h"
#include "common/posix/set_ids.h"
#include "common/proto/inode.pb.h"
#include "common/proto/store.pb.h"
#include "metaserver/namespace/lookup.h"

namespace kintsugi::metaserver {

using posix::AccessList;
using posix::Caller;
using posix::kAccessList;
using posix::kDefaultList;
using posix::kMayExecute;
using posix::kMayRead;
using posix::kMayWrite;
using posix::kPermissionBits;
using posix::kSetGroupId;
using posix::kSetUserId;
using posix::kSticky;

inline constexpr std::string_view kCapabilities = "security.capability";

/// Ok when the caller may do all of `wanted` (kMayRead…), else kAccessDenied.
Status check_access(const Transaction& transaction, const Caller& caller, InodeId id,
                    const proto::StoredInode& inode, uint32_t wanted);

/// Ok for root, else kNotPermitted: for what is the operator's.
Status check_root(const Caller& caller);

/// An entry of `directory` may be removed or renamed by the caller, as far as its sticky bit is concerned.
/// kNotPermitted.
Status check_sticky(const Caller& caller, const proto::StoredInode& directory,
                    const proto::StoredInode& entry);

/// Takes capabilities, the set-user-ID bit, and the set-group-ID bit where it means what it says or the caller is not
/// of the group, from a file.
void clear_privileges(Transaction& transaction, InodeId id, proto::StoredInode& inode, const Caller& caller);

}  // namespace kintsugi::metaserver
