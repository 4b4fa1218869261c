#include "client/lib/leases/new_inode.h"

#include <algorithm>

namespace kintsugi::client {
namespace {

constexpr uint32_t kSetGid = 02000, kGroupExecute = 010;

}  // namespace

proto::Attributes new_inode(const proto::Attributes& directory, const std::string& file_policy,
                            const proto::MakeInodeRequest& request, uint64_t inode, int64_t now_ns) {
  proto::Attributes made;
  const bool is_directory = request.type() == proto::Attributes::DIRECTORY;
  made.set_inode(inode);
  made.set_type(request.type());
  made.set_uid(request.caller().uid());
  made.set_gid(request.caller().gid());
  uint32_t mode = request.mode() & 07777;
  if ((directory.mode() & kSetGid) != 0) {
    const uint32_t group = directory.gid();
    const auto& groups = request.caller().groups();
    const bool in_group = request.caller().gid() == group || std::ranges::find(groups, group) != groups.end();
    made.set_gid(group);
    if (is_directory) {
      mode |= kSetGid;
    } else if (request.caller().uid() != 0 && !in_group && (mode & kGroupExecute) != 0) {
      mode &= ~kSetGid;
    }
  }
  if (request.type() == proto::Attributes::SYMLINK) {
    made.set_target(request.target());
    made.set_size(request.target().size());
    mode = 0777;
  } else {
    mode &= ~(request.umask() & 0777);
  }
  made.set_mode(mode);
  made.set_links(is_directory ? 2 : 1);
  made.set_modified_ns(now_ns);
  made.set_changed_ns(now_ns);
  made.set_accessed_ns(now_ns);
  if (request.type() == proto::Attributes::FILE) made.set_policy(file_policy);
  return made;
}

}  // namespace kintsugi::client
