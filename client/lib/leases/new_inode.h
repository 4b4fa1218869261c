/// The attributes of an inode that is made under the lease of a directory.
#pragma once

#include <cstdint>
#include <string>

#include "common/proto/inode.pb.h"

namespace kintsugi::client {

/// As the metaserver makes them when it hears of it (Inodes::add). `file_policy`: of new files in the directory.
proto::Attributes new_inode(const proto::Attributes& directory, const std::string& file_policy,
                            const proto::MakeInodeRequest& request, uint64_t inode, int64_t now_ns);

}  // namespace kintsugi::client
