/// Who may open what. The metaserver checks everything else; who opens a file or lists a directory has to ask here, as
/// a kernel asks for those who use a mount.
#pragma once

#include <cstdint>

#include <boost/asio/awaitable.hpp>

#include "client/lib/leases/inode_calls.h"
#include "common/posix/access_list.h"
#include "common/proto/inode.pb.h"

namespace kintsugi::capi {

using posix::kMayRead;
using posix::kMayWrite;

/// Judges by mode and access list. kAccessDenied.
asio::awaitable<Status> check_access(Context context, client::InodeCalls& calls, proto::Caller caller,
                                     proto::Attributes attributes, uint32_t wanted);

}  // namespace kintsugi::capi
