#include "client/mount/request_caller.h"

#include "client/mount/kernel/caller_process.h"

namespace kintsugi::mount {

proto::Caller caller_of(const Caller& caller) {
  proto::Caller who;
  who.set_uid(caller.uid);
  who.set_gid(caller.gid);
  if (caller.uid == 0) return who;
  if (caller.supplementary_group) who.add_groups(*caller.supplementary_group);
  const auto groups = groups_of(caller.pid);
  if (groups) who.mutable_groups()->Add(groups->begin(), groups->end());
  return who;
}

}  // namespace kintsugi::mount
