/// Extended attributes, the access lists among them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "metaserver/namespace/inodes.h"

namespace kintsugi::metaserver::ops {

Result<std::string> get_xattr(const Transaction& transaction, const Caller& caller, InodeId id,
                              std::string_view name);
Status set_xattr(const Inodes& inodes, Transaction& transaction, const Caller& caller,
                 const proto::SetXattrRequest& request);
Result<std::vector<std::string>> list_xattrs(const Transaction& transaction, InodeId id);

}  // namespace kintsugi::metaserver::ops
