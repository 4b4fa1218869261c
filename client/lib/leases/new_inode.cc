#include "client/lib/leases/new_inode.h"

#include "common/posix/set_ids.h"

namespace kintsugi::client {

proto::Attributes new_inode(const proto::Attributes& directory, const std::string& file_policy,
                            const proto::MakeInodeRequest& request, uint64_t inode, int64_t now_ns) {
  proto::Attributes made;
  const bool is_directory = request.type() == proto::Attributes::DIRECTORY;
  made.set_inode(inode);
  made.set_type(request.type());
  made.set_uid(request.caller().uid());
  const auto by_rules =
      posix::new_inode(posix::Caller::from(request.caller()),
                       {.group = directory.gid(), .mode = directory.mode()}, request.mode(), is_directory);
  made.set_gid(by_rules.group);
  uint32_t mode = by_rules.mode;
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
