/// Who may open what. The metaserver checks everything else; who opens a file or lists a directory has to ask here, as a kernel
/// asks for those who use a mount.
#pragma once

#include <cstdint>

#include <boost/asio/awaitable.hpp>

#include "client/lib/files/inode_calls.h"
#include "common/proto/inode.pb.h"

namespace kintsugi::capi {

inline constexpr uint32_t kMayRead = 4, kMayWrite = 2;

/// By mode and access list. kAccessDenied.
asio::awaitable<Status> check_access(Context context, client::InodeCalls& calls, proto::Caller caller,
                                     proto::Attributes attributes, uint32_t wanted);

/// What an access list grants to a caller who is neither the owner nor root; `list` is the value of system.posix_acl_access.
/// kInvalidArgument: it is none.
Result<bool> is_granted(std::string_view list, const proto::Caller& caller, uint32_t owning_group,
                        uint32_t wanted);

}  // namespace kintsugi::capi
