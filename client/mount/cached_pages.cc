#include "client/mount/cached_pages.h"

namespace kintsugi::mount {

CachedPages::Pages& CachedPages::pages(NodeId node) {
  if (files_.size() >= remembered_ && !files_.contains(node)) files_.clear();
  return files_[node];
}

bool CachedPages::has(const proto::Attributes& now) {
  // Not the time of the last write, which whoever copies files sets to what it was before.
  const int64_t version = now.changed_ns();
  return std::exchange(pages(now.inode()).version, version) == version;
}

void CachedPages::attributes_set(NodeId node, int64_t before, int64_t now) {
  const auto found = files_.find(node);
  if (found != files_.end() && found->second.version == before) found->second.version = now;
}

asio::awaitable<void> CachedPages::attributes_changed(NodeId node) {
  if (notifier_ != nullptr) (void)co_await notifier_->invalidate_inode(node, -1, 0);
}

bool CachedPages::are_old(const client::OpenFile& file) const {
  const int64_t changed = file.changed_by_others_ns();
  if (changed == 0) return false;
  const auto found = files_.find(file.inode());
  return found == files_.end() || found->second.dropped_for != changed;
}

void CachedPages::dropped_by_kernel(const client::OpenFile& file) {
  Pages& pages = this->pages(file.inode());
  pages.dropped_for = file.changed_by_others_ns();
  pages.must_drop = false;
}

void CachedPages::told(const client::OpenFile& file, const proto::Attributes& attributes, Answer answer) {
  Pages& pages = this->pages(file.inode());
  const std::pair now{attributes.size(), attributes.modified_ns()};
  if (are_old(file)) {
    if (answer == Answer::kAfterSetting || pages.told == now) {
      pages.must_drop = true;
    } else if (answer == Answer::kUsual && pages.told) {
      dropped_by_kernel(file);
    }
  }
  if (answer != Answer::kOvertaken) pages.told = now;
}

asio::awaitable<void> CachedPages::drop_old(const client::OpenFile& file) {
  const NodeId node = file.inode();
  if (!are_old(file) || !pages(node).must_drop) co_return;
  const int64_t changed = file.changed_by_others_ns();
  // The kernel takes nothing from answers that are under way meanwhile, so nothing that it needs may be in them.
  if (notifier_ != nullptr) (void)co_await notifier_->invalidate_inode(node, 0, 0);
  // Only now: until they are gone, another request must not believe it.
  pages(node).dropped_for = changed;
  if (file.changed_by_others_ns() == changed) pages(node).must_drop = false;
}

}  // namespace kintsugi::mount
