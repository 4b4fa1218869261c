#include "client/mount/cached_pages.h"

namespace kintsugi::mount {

bool CachedPages::has(const proto::Attributes& now) {
  // Not the time of the last write, which whoever copies files sets to what it was before.
  const int64_t version = now.changed_ns();
  if (versions_.size() >= remembered_) versions_.clear();
  return std::exchange(versions_[now.inode()], version) == version;
}

void CachedPages::attributes_set(NodeId node, int64_t before, int64_t now) {
  const auto found = versions_.find(node);
  if (found != versions_.end() && found->second == before) found->second = now;
}

asio::awaitable<void> CachedPages::attributes_changed(NodeId node) {
  if (notifier_ != nullptr) (void)co_await notifier_->invalidate_inode(node, -1, 0);
}

}  // namespace kintsugi::mount
