/// Inodes are made, with their first name or without one.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "common/proto/inode.pb.h"
#include "metaserver/namespace/inodes.h"

namespace kintsugi::metaserver {

inline constexpr size_t kMaxTargetBytes = 4095;  ///< longest target of a symbolic link

/// What an inode is made with.
struct NewInode {
  proto::Attributes::Type type = proto::Attributes::FILE;
  uint32_t mode = 0, umask = 0;
  uint64_t device = 0;
  std::string target;
  std::string policy;  ///< policy of a regular file
  InodeId id;          ///< an id that was reserved; none: the next free one
  int64_t at_ns = 0;   ///< time of creation; the current time if 0 or in the future

  /// Takes what a request says: all but the policy.
  static NewInode from(const proto::MakeInodeRequest& request);
};

namespace ops {

/// Makes an inode with its first name. kAlreadyExists.
Result<InodeId> make(const Inodes& inodes, Transaction& transaction, const Caller& caller, InodeId parent,
                     std::string_view name, const NewInode& made);
/// Makes a file without a name, to be held by somebody or linked.
Result<InodeId> make_nameless(const Inodes& inodes, Transaction& transaction, const Caller& caller,
                              InodeId parent, const NewInode& made);

}  // namespace ops
}  // namespace kintsugi::metaserver
