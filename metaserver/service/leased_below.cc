#include "metaserver/service/leased_below.h"

#include "metaserver/namespace/ancestors.h"
#include "metaserver/namespace/lookup.h"

namespace kintsugi::metaserver {

bool LeasedBelow::look(size_t at_most) {
  const std::vector<InodeId> page = leases_.leased(at_, at_most);
  for (const InodeId inode : page)
    if (lies_below(inode)) found_.push_back(inode);
  return page.size() == at_most;
}

bool LeasedBelow::lies_below(InodeId inode) {
  std::vector<InodeId> passed;
  bool is_below = false;
  for (InodeId at = inode; at;) {
    if (const auto known = below_.find(at); known != below_.end()) {
      is_below = known->second;
      break;
    }
    passed.push_back(at);
    const auto stored = reader_.get_message<proto::StoredInode>(keys::inode(at));
    // One of several names may lie below.
    is_below = stored && !is_directory(*stored) && stored->links() > 1;
    if (is_below || !stored || passed.size() > size_t{kMaxDepth}) break;
    at = InodeId{stored->parent()};
  }
  for (const InodeId one : passed)
    below_[one] = is_below;
  return is_below;
}

}  // namespace kintsugi::metaserver
